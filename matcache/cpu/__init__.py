"""The CPU backend: threads, launches, and hand-written kernels."""
