"""One run on disk: data, checks, signals, and the final model."""
