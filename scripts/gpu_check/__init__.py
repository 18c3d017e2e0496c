"""What `scripts/gpu-check` runs: tests (`tests.py`), then sections of benchmarks, each a generator
of rows: `table1.py`, `steps.py`, `trainings.py`, `peers.py`. `measure.py` has what they share.
"""
