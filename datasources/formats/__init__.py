"""Files of other systems, row by row: what converters read."""
