# SPDX-License-Identifier: MIT
"""Two hundred tests, one of which leaves a directory behind."""
import os
import tempfile
import unittest

WORK = tempfile.TemporaryDirectory()


class Instances(unittest.TestCase):
    def scratch(self, name):
        path = os.path.join(WORK.name, name)
        os.mkdir(path)
        return path


def make_test(number):
    def test(self):
        path = self.scratch(f"run-{number}" if number != 137 else "instances")
        if number != 137:
            os.rmdir(path)
    return test


for n in range(200):
    setattr(Instances, f"test_{n:03}", make_test(n))


if __name__ == "__main__":
    unittest.main()
