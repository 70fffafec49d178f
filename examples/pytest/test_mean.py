# SPDX-License-Identifier: MIT
import random


def mean(values):
    return sum(values) / len(values)


def test_mean():
    assert mean([1, 2, 6]) == 3


def test_mean_of_nothing():
    assert mean([]) == 0


def test_sample():
    assert mean(random.sample([1, 2, 6], 2)) < 3
