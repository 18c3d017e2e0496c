"""Clusters of rows around centres."""

from typing import TYPE_CHECKING

from blocklearn.exports import on_demand

if TYPE_CHECKING:
    from .model import KMeans as KMeans
else:
    __getattr__, __dir__, __all__ = on_demand(__name__)
