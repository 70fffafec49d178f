# SPDX-License-Identifier: MIT
"""cffi's module in C, which is all that ttq needs of it: the system's, else the one that a wheel carries for
the Python that it was built with."""

import importlib.machinery
import importlib.util
import os
import sys

try:
    import _cffi_backend  # noqa: F401
except ImportError as e:
    _vendored = [os.path.join(os.path.dirname(__file__), "_vendor", "_cffi_backend" + suffix)
                 for suffix in importlib.machinery.EXTENSION_SUFFIXES]
    _found = next((path for path in _vendored if os.path.exists(path)), None)
    if _found is None:
        raise ImportError("ttq needs cffi (Debian: python3-cffi; elsewhere: pip install cffi)") from e
    _spec = importlib.util.spec_from_file_location("_cffi_backend", _found)
    assert _spec is not None and _spec.loader is not None
    sys.modules["_cffi_backend"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["_cffi_backend"])
