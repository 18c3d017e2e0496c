"""A traced row program as data: instructions, trace, schedule, reference."""
