"""Names of what a replica has learned."""

OPTIMIZER = "optimizer."
"""Precedes the names of an optimizer's state."""
