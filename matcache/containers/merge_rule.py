"""The rules by which replicas are merged."""

from typing import Literal

Merge = Literal["mean", "sum", "max", "same"]
"""How replicas are combined.

"mean" of weights, "sum" of statistics, "max" of bounds; "same": they are equal already.
"""
