"""Clusters of rows around centres."""

from .model import KMeans as KMeans
