"""Kernels over arrays: validate, copy and hash rows."""
