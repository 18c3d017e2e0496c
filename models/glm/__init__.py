"""Generalised linear models."""

from .model import GLM as GLM
from .targets import Target as Target
