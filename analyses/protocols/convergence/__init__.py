"""Instructions that a group of threads must execute together."""
