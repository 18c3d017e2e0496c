"""Kernels written by hand; those of topics are in `topics/`, and generators print the others."""
