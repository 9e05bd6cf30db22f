"""The cluster barrier."""
