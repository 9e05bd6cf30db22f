"""What no assembler would take: syntax, names, forms, types."""
