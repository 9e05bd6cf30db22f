"""Grids and clusters."""
