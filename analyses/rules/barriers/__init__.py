"""Barriers."""
