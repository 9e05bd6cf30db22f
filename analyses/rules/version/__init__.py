"""Versions, targets and directives."""
