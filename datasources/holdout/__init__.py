"""Holds rows out for evaluation: splits, filters, held-out entries."""
