"""Example data that need no download."""
