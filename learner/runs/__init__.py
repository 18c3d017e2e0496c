"""One run on disk: its data, checks, checkpoints, signals, and the model at its end."""
