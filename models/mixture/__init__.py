"""Mixtures of Gaussian distributions."""

from blocklearn.exports import exported as _exported

from .model import GaussianMixture as GaussianMixture

__all__ = _exported(globals())
