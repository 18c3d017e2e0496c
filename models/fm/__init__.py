"""Factorization machines."""

from blocklearn.exports import exported as _exported

from .model import FM as FM

__all__ = _exported(globals())
