"""Suppression comments."""
