"""Alternating least squares."""

from .model import ALS as ALS
