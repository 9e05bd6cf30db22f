"""Symbolic values: terms over what a thread knows at entry, and their values in loops and for each thread."""
