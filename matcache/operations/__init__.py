"""What each operation computes, for any device."""
