"""Measures of scores on held-out rows: areas under curves, precisions, calibration."""
