"""The sizes and arrays of a block; kernels over arrays: validate, copy and hash rows."""
