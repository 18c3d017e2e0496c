"""Models of graphs: PageRank, connected components, triangles."""
