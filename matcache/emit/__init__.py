"""Print programs as source code: Numba and CUDA C++."""
