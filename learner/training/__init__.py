"""The training loop: blocks, replicas, evaluation, the memory plan."""
