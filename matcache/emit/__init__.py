"""Programs printed as source: Numba and CUDA C++."""
