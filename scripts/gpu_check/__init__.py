"""What `scripts/gpu-check` runs: tests, then sections of benchmarks, each a generator of rows:
`table1.py`, `steps.py`, `kernels.py`, `index.py`, `trainings.py`. `measure.py` has what they share.
"""
