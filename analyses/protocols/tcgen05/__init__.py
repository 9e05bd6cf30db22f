"""Tensor memory and the MMAs of the fifth generation of tensor cores."""
