"""Dependencies between grids, and between the thread blocks of a cluster."""
