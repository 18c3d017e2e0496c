"""Which rows are evaluated: splits, filters, held-out entries."""
