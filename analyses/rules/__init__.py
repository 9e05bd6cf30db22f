"""The lint rules, one a file."""
