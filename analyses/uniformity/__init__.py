"""Uniformity: the groups of threads that compute the same value, take the same branch, and execute together."""
