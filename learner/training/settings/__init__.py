"""What a run is told: its settings, when to score, how far it is."""
