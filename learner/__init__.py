"""Train models and use them: the loop, runs on disk, the command line, estimators, services.

`learner.py` is what Python sees of it. docs/design.md, section 6, lists the rooms.
"""
