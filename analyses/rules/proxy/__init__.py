"""Proxies."""
