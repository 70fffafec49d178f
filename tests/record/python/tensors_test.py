#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""tensors_test.py TTQ: tensors are shown with the shape, the type and the elements that PyTorch says they have."""

import json
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from interpreters import require_module  # noqa: E402

PYTHON = "/usr/bin/python3"
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensors.py")
SHOWN_OF_MANY = 200


def numbers(nested):
    if isinstance(nested, list):
        return [n for item in nested for n in numbers(item)]
    return [float(nested)]


def expect_data(tensor, text):
    has, many = numbers(tensor["data"]), text.endswith("...]")
    shown = json.loads(text.replace(", ...]", "]").replace("True", "true").replace("False", "false"))
    assert many == (len(has) > SHOWN_OF_MANY), (tensor, text)
    if many:
        assert len(shown) == SHOWN_OF_MANY
        has = has[:SHOWN_OF_MANY]
    else:
        assert str(shown).count("[") == str(tensor["data"]).count("["), (tensor, text)
    got = numbers(shown)
    assert len(got) == len(has) and all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(got, has)), (tensor, text)


def main():
    ttq = sys.argv[1]
    require_module(PYTHON, "torch", "python3-torch")
    with tempfile.TemporaryDirectory() as place:
        directory = os.path.join(place, "tensors")
        told = subprocess.run([ttq, "record", "-q", "-o", directory, PYTHON, PROGRAM], capture_output=True, text=True,
                              check=False)
        assert told.returncode == 134, told
        answer = subprocess.run([ttq, "-t", directory, "-f", "json", "py locals at crash in frame 0"],
                                capture_output=True, text=True, check=True)
        values = {row["name"]: row["value"] for row in json.loads(answer.stdout)["rows"]}
        tensors = [json.loads(line) for line in told.stdout.splitlines()]
        for tensor in tensors:
            found = re.fullmatch(r"<(\w+)\(shape=(\[[^]]*\]), dtype=([\w.]+)(?:, data=(.*))?\) at remote 0x[0-9a-f]+>",
                                 values[tensor["name"]])
            assert found is not None, (tensor, values[tensor["name"]])
            name, shape, dtype, data = found.groups()
            assert (name, json.loads(shape), dtype) == (tensor["class"], tensor["shape"], tensor["dtype"]), found
            assert (data is None) == (tensor["data"] is None), (tensor, data)
            if data is not None:
                expect_data(tensor, data)
        print("tensors:", len(tensors))


if __name__ == "__main__":
    main()
