"""Checkpoints: saved while a learner trains, found and checked when it resumes."""
