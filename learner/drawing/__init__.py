"""Charts and HTML elements, made of text."""
