"""Workers: processes that train one model together, and how they exchange arrays."""
