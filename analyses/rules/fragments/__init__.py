"""Matrix fragments."""
