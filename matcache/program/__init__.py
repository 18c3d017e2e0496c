"""Programs as data, of rows or dense expressions: trace, derivatives, schedule, reference."""
