# SPDX-License-Identifier: MIT
#
# nothing.py DIRECTORY: gives back None too often, until nobody has a reference to it any more.

import sys

sys.path.insert(0, sys.argv[1])
import nothing  # noqa: E402

print(hex(id(None)), flush=True)
while True:
    nothing.right()
    nothing.wrong()
