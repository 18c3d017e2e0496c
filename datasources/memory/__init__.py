"""Sources of blocks in memory."""
