"""Data sets made from files of other systems, and described."""
