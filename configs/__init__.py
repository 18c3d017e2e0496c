"""YAML files that run as they stand."""
