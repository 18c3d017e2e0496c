"""The CPU backend: threads, launches, and kernels written by hand."""
