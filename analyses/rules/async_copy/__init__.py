"""Asynchronous copies."""

WORDS = ("async", "tcgen05")
