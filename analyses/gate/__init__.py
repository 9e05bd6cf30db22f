"""A single verdict on a module, from all available checks."""
