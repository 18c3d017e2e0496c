"""Settings that a model leaves open, chosen by trials on held-out entries."""
