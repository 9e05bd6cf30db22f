"""Proxies: accesses of one memory through several of them, and the fences between."""
