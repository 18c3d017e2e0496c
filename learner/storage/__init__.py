"""Formats of files that are complete or absent: model folders, tensors, manifests, exports."""
