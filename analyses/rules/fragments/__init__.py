"""Matrix fragments."""

WORDS = ("matrix", "mma")
