"""Names of weightings of counts."""

from typing import Literal

Weighting = Literal["idf", "tf-idf", "pmi"]
"""The name of a weighting of counts."""
