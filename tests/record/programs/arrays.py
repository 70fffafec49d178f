# SPDX-License-Identifier: MIT
"""numpy, with BLAS threads."""

import numpy

a = numpy.random.RandomState(1).rand(100, 100)
b = a @ a.T
print(round(float(numpy.linalg.det(b[:10, :10] + numpy.eye(10))), 3), b.sum().round(3))
print(numpy.sort(a.ravel())[:3].round(6), numpy.fft.fft(a[0]).real.sum().round(6))
