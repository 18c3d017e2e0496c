"""The tasks of `scripts/bench TASK` and their shared modules.

A task is a file with `PEER_NAMES`, `options(parser)`, `run(args, peers) -> Report` and
`show(report)`. Its docstring opens with its findings: `allocation.py`, `kernels.py`, `lda.py`.

Shared by tasks: `data.py` (matrices and the split), `report.py` (tables and the JSON), `machine.py`
(the machine and its limits), `system.py` (a system's job, and its process), `process.py` (starts
and watches that process). Compared systems are in `als_systems.py`, `glm_systems.py` and
`lda_systems.py`; `perplexity.py` evaluates topics.

`all` runs the tasks: `everything.py`.
"""
