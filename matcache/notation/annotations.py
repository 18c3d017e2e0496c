"""Names for annotations of model code's operands, all of the same type.

A `@rowwise` function receives matrices of a cache, traced values or arrays of the float64
reference. They share the arithmetic of `Operand`, which type checkers see as `Any`. The names tell
the reader which shape is expected; shapes are checked during tracing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Sparse: TypeAlias = Any
"""A sparse matrix [rows x columns], or a value at each of its stored entries."""

Rows: TypeAlias = Any
"""A dense matrix with one row for each row of the data [rows x k]; a program sees one of them."""

Table: TypeAlias = Any
"""A dense matrix that every row reads as a whole, such as one with a row for each column of X."""

Row: TypeAlias = Any
"""One row of numbers [1 x k], shared by all rows of the data."""

Column: TypeAlias = Any
"""One number for each row of the data [rows x 1], or one for all of them."""

Number: TypeAlias = Any
"""One number: a Python number or a 1 x 1 matrix."""

Matrix: TypeAlias = Any
"""A sparse or a dense matrix, such as `block.X`."""
