"""Alternating least squares."""

from blocklearn.exports import exported as _exported

from .model import ALS as ALS

__all__ = _exported(globals())
