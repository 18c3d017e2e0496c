"""Traced row programs as data: instructions, trace, schedule, reference."""
