"""The barrier of a cluster."""
