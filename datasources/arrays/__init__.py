"""Kernels over arrays: validate, copy, sort, transpose and hash rows."""
