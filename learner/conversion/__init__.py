"""Conversion of files of other systems into block datasets."""
