"""Watch a run: on a terminal, by files and events for other programs, by a watchdog."""
