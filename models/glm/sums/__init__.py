"""Losses, gradients and Hessians summed over rows in memory, dense or sparse."""
