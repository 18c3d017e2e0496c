"""Documents to word counts."""
