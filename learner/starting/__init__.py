"""Configurations for data that users have: `learn init` and `learn lda FILE`."""
