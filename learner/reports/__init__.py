"""Reports on models as lines of text."""
