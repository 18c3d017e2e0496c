"""What `scripts/gpu-check` runs: tests, then sections of benchmarks, each a generator of rows and
in a process of its own (`apart.py`, `section.py`): `table1.py`, `lda.py`, `als.py`, `glm.py`,
`pool.py`, `merge.py`, `index.py`, `trainings.py`. `measure.py` has what they share, `peers.py` what
others do instead.
"""
