"""Launches for kernels that come without one: shapes and arguments, inferred from how the kernel uses them."""
