"""Generalised linear models."""

from blocklearn.exports import exported as _exported

from .model import GLM as GLM
from .targets import Target as Target

__all__ = _exported(globals())
