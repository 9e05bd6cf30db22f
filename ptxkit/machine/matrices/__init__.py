"""Matrices: how fragments lie in registers, how tiles lie in shared and tensor memory, and what a tensor core computes of them."""
