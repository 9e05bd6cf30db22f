"""Comments that accept findings."""
