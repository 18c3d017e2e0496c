"""The base class of models whose prediction is a product of a user's and an item's factors."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blocklearn.matcache import Mat, ShapeError, Sparse

from .base import Model
from .inputs import Block


class FactorModel(Model):
    """Base of models with factors of users and items, which lists of items are made from.

    The prediction is mean + users[u] . items[i]. `users` is a state of rows [n x K]; `items` is a
    state of columns, or a parameter [m x K].

    has_mean: whether there is a parameter `mean` [1 x 1]; otherwise it is 0.
    """

    has_mean: ClassVar[bool] = False

    @property
    @abstractmethod
    def factors(self) -> int:
        """How many of the K numbers, from the first, are factors; the others are biases."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """K, the length of a user's row and of an item's row."""

    @property
    @abstractmethod
    def implicit(self) -> bool:
        """Whether entries say what users have, not how they rate it."""

    @property
    @abstractmethod
    def items(self) -> Mat:
        """The rows of all items [m x K]."""

    def entries(self, block: Block) -> Sparse:
        """Return X of a block. Raises ShapeError if it is dense."""
        if block.X.pattern is None:
            raise ShapeError(
                f"{type(self).__name__}: the data are a dense matrix, in which every user has "
                "every item; pass a sparse one that stores the known entries, such as "
                "scipy.sparse.csr_array(X)."
            )
        return block.X

    @abstractmethod
    def constants(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the row of an unknown user and that of an unknown item, each [K]."""
