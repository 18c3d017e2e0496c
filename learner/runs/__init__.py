"""One run on disk: data, checks, checkpoints, signals, and the final model."""
