"""Factorization machines."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import FM as FM
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
