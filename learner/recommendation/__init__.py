"""Lists of the best items from models of users and items, and scores of these lists."""
