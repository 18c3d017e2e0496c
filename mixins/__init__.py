"""Terms added to an objective: L1, L2, dependence between components, ... (none built yet)."""
