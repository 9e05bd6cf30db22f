"""Uniformity: how far threads compute the same value, take the same branch, and execute together."""
