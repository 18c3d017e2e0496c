"""What a model has to say, as lines of text."""
