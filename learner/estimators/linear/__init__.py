"""Linear models and factorization machines: losses, solvers for rows in memory, refining."""
