"""Models of users and items: matrix factorisation, rankings, lists of items."""
