"""One run on disk: from its configuration to its model, with all that may happen in between."""
