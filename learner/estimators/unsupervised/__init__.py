"""Models of rows without targets: topics, clusters, components, vectors of words."""
