"""Matrix fragments in registers."""
