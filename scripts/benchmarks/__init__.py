"""What `scripts/bench TASK` runs.

A task is a file with `PEER_NAMES`, `options(parser)`, `run(args, peers) -> Report` and
`show(report)`, and opens with what it found: `allocation.py`, `kernels.py`, `lda.py`. Shared by
tasks: `data.py` (matrices and the split), `report.py` (tables and the JSON), `machine.py` (what it
ran on, and that machine's limits), `system.py` (a system's job, and its process), `process.py` (how
that is started and watched). What is compared is in `als_systems.py`, `glm_systems.py` and
`lda_systems.py`; `perplexity.py` evaluates topics.

`all` is not a task but runs them: `everything.py`, with `curves.py` (quality against time),
`side_by_side.py` (what the report says), `blocks.py` (as Markdown and HTML) and `peak.py`.
"""
