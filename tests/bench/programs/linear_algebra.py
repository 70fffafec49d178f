# SPDX-License-Identifier: MIT
#
# import numpy, and a little of what one does with it.

import numpy as np

a = np.random.default_rng(1).random((200, 200))
print(np.linalg.inv(a).shape, np.sort(a.ravel())[:3].size)
