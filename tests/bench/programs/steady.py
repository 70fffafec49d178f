# SPDX-License-Identifier: MIT
#
# CPython in its steady state: calls, attributes, dictionaries, strings; about 1.3 G instructions.


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


class Account:
    def __init__(self, rate):
        self.rate = rate
        self.entries = {}

    def post(self, key):
        self.entries[key] = self.rate * key
        return len(self.entries)


account = Account(3)
total = 0
for i in range(400000):
    total += account.post(i % 100)
names = [str(i) for i in range(300000)]
names.sort()
print(fib(25), total, len("".join(names)))
