"""Files that are complete or absent: model folders, tensors, predictions, exports."""
