"""Factorization machines."""

from .model import FM as FM
