"""Proxies: accesses to the same memory through different proxies, and the fences between them."""
