"""The parts of `scripts/gpu-check`: tests, then sections of benchmarks.

Each section is a generator of rows and runs in a process of its own (`apart.py`, `section.py`).
`section.py` lists the sections. `measure.py` has their shared code, `peers.py` the packages to
compare with.
"""
