"""Memory with identity: slots, the cache, matrices, inputs; the dispatch table; recordings."""
