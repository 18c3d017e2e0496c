"""Damaged input for every reader: models of damage, samples, readers, and what must follow.

`python -m tests.mutations --cases 100000 --seed 1` makes 100,000 damaged inputs, has each read in a
child process with limits on time and memory, and compares what is read with an independent reading.
A case is the same wherever it runs: its number and the seed decide everything.

| module | holds |
|---|---|
| `samples.py` | good input of every format, and how it is read |
| `damage.py` | damage to bytes and text |
| `packing.py` | damage inside archives, and damage with the digest put right |
| `readers.py` | the product's readers, reduced to `Facts` |
| `independent.py` | the same by Python, NumPy, SciPy and PyArrow |
| `case.py` | one case: which sample, which damage, which verdict |
| `worker.py`, `runner.py` | child processes, and the watch over them |
| `known.py` | faults that are known and not repaired yet |
"""
