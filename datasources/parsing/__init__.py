"""Parse files: lines, numbers, layouts of rows, files of arrays."""
