# SPDX-License-Identifier: MIT
import over_decref


class Reading:
    def __init__(self, value):
        self.value = value


readings = [Reading(float(n)) for n in range(11)]
print(hex(id(readings[4])), over_decref.average(readings), flush=True)
others = [[n] for n in range(1000)]
print(readings[4].value)
