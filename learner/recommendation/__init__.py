"""Lists of the best items for users, and scores of these lists."""
