"""Generalised linear models."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import GLM as GLM
    from .targets import Target as Target
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
