"""Grids and clusters."""

WORDS = ("cluster", "griddepcontrol", "mapa")
