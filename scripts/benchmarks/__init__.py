"""What `scripts/bench TASK` runs.

A task is a file with `PEER_NAMES`, `options(parser)`, `run(args, peers) -> Report` and
`show(report)`, and opens with what it found: `allocation.py`, `kernels.py`, `lda.py`. Shared by
tasks: `data.py` (matrices and the split), `report.py` (tables and the JSON), `machine.py` (what it
ran on, and that machine's limits), `process.py` (a system in a process of its own). LDA's systems
are in `lda_ours.py` and `lda_peers.py`, the common evaluator in `perplexity.py`.

`all` is not a task but runs them: `everything.py`, with `curves.py` (quality against time),
`side_by_side.py` (what the report says), `blocks.py` (as Markdown and HTML) and `peak.py`.
"""
