# SPDX-License-Identifier: MIT
"""The Python program of the manual's examples: it adds numbers up and dies in a C function."""

import ctypes


class Account:
    def __init__(self, owner):
        self.owner = owner
        self.total = 0

    def add(self, amount):
        self.total += amount
        if self.total > 5:
            # Reads from a null pointer: SIGSEGV in C, called from here.
            ctypes.string_at(0)


def accumulate(account, amounts):
    for amount in amounts:
        account.add(amount)
    return account.total


print("ready", flush=True)
accumulate(Account("Ada"), [1, 2, 3, 4])
