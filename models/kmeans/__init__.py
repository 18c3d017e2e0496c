"""Clusters of rows around centres."""

from blocklearn.exports import exported as _exported

from .model import KMeans as KMeans

__all__ = _exported(globals())
