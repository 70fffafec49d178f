# SPDX-License-Identifier: MIT
# What the Python examples of the language manual are asked of. Prints the address of a function
# that is freed again; ends with a crash below two Python functions.
import ctypes

config = {"rate": 1}


def accumulate(items):
    total = 0
    for item in items:
        total += item
    return total


class Model:
    def __init__(self):
        self.total = 0

    def train(self, items):
        for item in items:
            self.total += accumulate(range(item))
            config["rate"] = item
        return self.total

    def crash(self):
        step = self.total
        return ctypes.string_at(step - step)


def make():
    def inner():
        return 1
    return inner


model = Model()
model.train([2, 3, 4])
function = make()
print(hex(id(function)), flush=True)
del function
model.crash()
