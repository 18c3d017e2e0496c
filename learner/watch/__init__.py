"""Watching a run: on a terminal, in files for other programs, as a page."""
