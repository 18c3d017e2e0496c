"""Sources of data in memory, and of batches from an iterator."""
