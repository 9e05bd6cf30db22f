"""Registers: static single assignment, liveness, reaching definitions, pressure, reads before any write."""
