"""Proxies."""

WORDS = ("async", "proxy", "tcgen05", "tensormap", "wgmma")
