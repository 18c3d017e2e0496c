"""Compressed files."""
