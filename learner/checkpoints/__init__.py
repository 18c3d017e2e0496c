"""Checkpoints: saved while a learner trains, found and checked when it resumes.

`same_run.py` decides whether a run may resume from a checkpoint.
"""
