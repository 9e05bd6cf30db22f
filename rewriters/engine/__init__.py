"""Building blocks of rewriters: fresh names, patterns that select instructions, edits, marks, and what edits must preserve."""
