"""What an installation finds around it, and whether it computes correctly."""
