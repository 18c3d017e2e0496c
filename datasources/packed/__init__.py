"""Reads compressed files."""
