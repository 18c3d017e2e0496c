"""Mixtures of Gaussian distributions."""

from .model import GaussianMixture as GaussianMixture
