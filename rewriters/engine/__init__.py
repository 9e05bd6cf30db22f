"""What rewriters are made with: fresh names, patterns that pick instructions, edits, marks, and what edits must not break."""
