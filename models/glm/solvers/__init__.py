"""Solvers of linear models whose rows lie in memory: they read all rows, and need no learner."""
