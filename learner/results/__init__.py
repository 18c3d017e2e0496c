"""What a trained learner leaves: its model in a folder, predictions, and shares of topics."""
