"""Matrices: layouts of fragments in registers and of tiles in shared and tensor memory, and the arithmetic of tensor cores."""
