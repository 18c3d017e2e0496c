"""What was learned: taken, given back, kept in memory or files."""
