"""One copy of a model: its plan, its memory, its blocks, its updates."""
