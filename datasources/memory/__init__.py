"""Sources of blocks of data in memory."""
