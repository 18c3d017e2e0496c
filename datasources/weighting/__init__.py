"""Entries that are weighed before training: tf-idf and others."""
