"""Looking at data, runs and models on disk."""
