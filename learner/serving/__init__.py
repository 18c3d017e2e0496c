"""A model as a service on HTTP: `learn serve`."""
