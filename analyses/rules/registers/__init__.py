"""Registers and code."""
