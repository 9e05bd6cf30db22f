"""Tensor memory (tcgen05)."""
