"""Formats of files that are complete or absent: models, tensors, manifests, logs, exports."""
