"""YAML configurations that run as they stand."""
