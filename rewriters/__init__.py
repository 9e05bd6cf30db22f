"""What changes a program."""
