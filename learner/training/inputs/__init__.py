"""The data of a run, opened, checked and counted."""
