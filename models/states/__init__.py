"""States of rows of the data, and of tokens: their stores, and how models see them."""
