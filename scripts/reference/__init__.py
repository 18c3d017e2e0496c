"""Pages of the documentation that are made from the code while the site is built."""
