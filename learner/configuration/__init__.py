"""The schema of configuration files, and how files become a configuration."""
