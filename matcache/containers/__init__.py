"""Memory with identity: slots, the cache, matrices, inputs, dispatch of operations."""
