"""Replicas made, and what they will take: memory and time."""
