"""Models of users and items: lists of the best, and how good they are."""
