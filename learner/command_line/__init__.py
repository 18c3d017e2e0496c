"""The command `learn`, and what it prints."""
