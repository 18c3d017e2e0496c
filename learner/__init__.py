"""The loop, run folders, checkpoints, metrics, configuration and the command line."""
