"""Barriers."""

WORDS = ("bar",)
