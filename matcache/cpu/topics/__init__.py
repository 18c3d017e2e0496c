"""Samplers of topics: vector instructions, and kernels that walk through documents."""
