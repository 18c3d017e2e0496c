"""What model code is written in: operands, functions, elementwise operations."""
