"""Sources that make rows for a model from those of another: with negatives, windows, pairs."""
