"""Tensor memory (tcgen05)."""

WORDS = ("tcgen05",)
