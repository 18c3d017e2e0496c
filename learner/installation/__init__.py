"""Check an installation: its surroundings, and whether it computes correctly."""
