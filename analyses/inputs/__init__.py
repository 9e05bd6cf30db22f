"""Launches for kernels that come without one: shapes and arguments by how a kernel uses them."""
