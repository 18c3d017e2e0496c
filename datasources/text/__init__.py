"""Turns documents into word counts."""
