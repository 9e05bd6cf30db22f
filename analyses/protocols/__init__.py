"""Protocols of synchronization: what must hold of asynchronous copies, barriers, proxies and matrix pipelines, asked of the engines."""
