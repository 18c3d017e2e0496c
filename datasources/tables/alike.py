"""Check that a table to evaluate has the features of the table that a model is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..errors import DataError


class Features(Protocol):
    """The features of a table, as its configuration names them."""

    @property
    def numeric(self) -> Sequence[str]:
        """Columns whose numbers are features."""

    @property
    def categorical(self) -> Sequence[str]:
        """Columns whose values are features."""

    @property
    def standardize(self) -> object:
        """Whether, or by which means and deviations, numbers are standardized."""


def check_alike(other: Features, train: Features) -> None:
    """Raise `DataError` if `other`, of data.eval, has other features than `train`.

    Numbers have names of their own, which are compared with the data. Categories have not.
    """
    if train.standardize and other.numeric and not other.standardize:
        raise DataError(
            "data.eval: standardize: false, but data.train has standardize: true: must be the "
            "same. Add standardize: true, which takes the means of data.train."
        )
    here, there = set(other.categorical), set(train.categorical)
    for key, lacking, has in (
        ("data.eval", there - here, "data.train"),
        ("data.train", here - there, "data.eval"),
    ):
        if lacking:
            raise DataError(
                f"{key}: column {min(lacking)!r} is categorical in {has} alone: must be so in "
                "both. Give both the same `categorical` columns."
            )
