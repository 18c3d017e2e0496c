"""What files are read with: lines, numbers, layouts of rows, files of arrays."""
