"""Compile kernels with Numba: quickly, once for all processes, and ahead of their first call."""
