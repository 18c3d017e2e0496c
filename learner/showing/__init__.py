"""Learners and their training, as terminals and notebooks show them."""
