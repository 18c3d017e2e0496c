"""Workers: processes, or threads, that train one model together, and how they exchange arrays."""
