"""Entries that a source does not have, drawn at random: negatives of implicit feedback."""
