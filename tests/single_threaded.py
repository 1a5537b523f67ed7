"""Matrix products in one thread, in the tests and all that they start. Import this before numpy.

Tests run side by side: the threads of several libraries on few cores wait for each other, and a product takes up to a
hundred times as long. Its last bits depend on the number of threads, too.
"""

from __future__ import annotations

import os

os.environ |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
