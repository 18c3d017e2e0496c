"""Files that are complete or absent: models, tensors, predictions, exports."""
