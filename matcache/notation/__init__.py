"""The notation of model code: operands, functions, elementwise operations."""
