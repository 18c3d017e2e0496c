"""What an operand of model code is: names for annotations, all of the same type.

A `@rowwise` function is handed matrices of a cache, traced values or arrays of the float64
reference. What they have in common is the arithmetic of `Operand`, which type checkers know as
`Any`. The names tell the reader what a function expects; shapes are checked when it is traced.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Sparse: TypeAlias = Any
"""A sparse matrix [rows x columns], or a value at each of its stored entries."""

Rows: TypeAlias = Any
"""A dense matrix with a row for each row of the data [rows x k], of which a program sees one."""

Table: TypeAlias = Any
"""A dense matrix that all rows read as a whole, such as one with a row for each column of X."""

Row: TypeAlias = Any
"""One row of numbers for all rows of the data [1 x k]."""

Column: TypeAlias = Any
"""One number for each row of the data [rows x 1], or one for all of them."""

Number: TypeAlias = Any
"""One number: of Python, or 1 x 1."""

Matrix: TypeAlias = Any
"""A sparse or a dense matrix: what `block.X` is."""
