"""Symbolic values: terms over what a thread knows when it starts, and what they are in a loop and for each thread."""
