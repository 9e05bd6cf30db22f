"""What no assembler accepts: syntax, names, forms, types."""
