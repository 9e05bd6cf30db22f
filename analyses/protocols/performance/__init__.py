"""Accesses of a warp: bank conflicts and coalescing."""
