"""Replicas of all workers: in turn, merged, fetching rows from one another."""
