"""Races in shared memory."""

WORDS = ("shared",)
