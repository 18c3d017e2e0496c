"""Functions that become part of kernels: vectors, mathematics, random numbers."""
