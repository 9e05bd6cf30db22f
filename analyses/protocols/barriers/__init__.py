"""Barriers of a thread block: participants, counts, operands."""
