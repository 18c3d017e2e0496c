"""Inspect data, runs and models on disk."""
