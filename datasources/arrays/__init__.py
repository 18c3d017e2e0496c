"""Kernels over arrays: validate, copy and hash rows; arrays of Arrow."""
