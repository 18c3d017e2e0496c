"""Latent Dirichlet allocation."""

from blocklearn.exports import exported as _exported

from .model import LDA as LDA

__all__ = _exported(globals())
