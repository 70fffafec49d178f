# SPDX-License-Identifier: MIT
# Each function takes a number from another input; what main() prints depends on it. Each imports what it
# alone needs: the start is most of each recording.
import os
import sys
import time


def environment():
    return int(os.environ.get("LEVEL", "3"))


def other_hashes():
    return environment()


def default():
    return environment()


def argument():
    return len(sys.argv[2])


def file():
    import json
    with open("data.json") as f:
        return json.load(f)["limits"]["max"]


def clock():
    return int(time.time() * 1000) % 50


def seed():
    import random
    return random.Random().randrange(40)


def hashes():
    return list({"alpha", "beta", "gamma", "delta", "epsilon"}).index("beta") * 6


def array():
    import numpy
    return int(numpy.load("data.npy").sum())


def compute(k):
    out = []
    for i in range(20):
        if i * 3 > k:
            out.append(i)
    return out


def main():
    k = globals()[sys.argv[1]]()
    print(len(compute(k)))


# A variable of a module is in a dict.
if sys.argv[1] == "module":
    level = environment()
    print(len(compute(level)))
else:
    main()
