"""Alternating least squares."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import ALS as ALS
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
