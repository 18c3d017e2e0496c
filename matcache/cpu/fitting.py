"""The kernels that fits and predictions of rows in memory call, and the numbers that they take.

See `ready.py`.
"""

from __future__ import annotations

from .compiling.ready import Ready

LOGISTIC, HINGE, SQUARED_HINGE, SQUARED, HUBER, QUANTILE = range(6)  # losses of dual ascent
LINE = 16  # numbers in a line of the cache
FEW = 5  # columns below which `ascend` is faster than whole lines
WIDTH = 4 * LINE  # most columns that are solved together

ascend = Ready("dual_ascent", "ascend")
ascend_softmax = Ready("dual_ascent", "ascend_softmax")
ASCENTS = {k: Ready("dual_ascent", f"ascend_{k}") for k in range(LINE, WIDTH + 1, LINE)}
sum_columns = Ready("column_sums", "sum_columns")
multiply_rows = Ready("sparse_rows", "multiply_rows")
number_nearest = Ready("nearest", "number_nearest")
add_turned_rows = Ready("sparse_rows", "add_turned_rows")
multiply_columns = Ready("coordinate_descent", "multiply_columns")
add_columns = Ready("coordinate_descent", "add_columns")
column_moments = Ready("coordinate_descent", "column_moments")
descend = Ready("coordinate_descent", "descend")
