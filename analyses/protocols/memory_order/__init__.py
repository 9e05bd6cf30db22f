"""Flags in memory by which threads signal one another."""
