"""Source to tree and back. Knows no instruction."""
