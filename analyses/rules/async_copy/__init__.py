"""Asynchronous copies."""
