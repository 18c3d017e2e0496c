"""The schema of configuration files, and the code that reads them."""
