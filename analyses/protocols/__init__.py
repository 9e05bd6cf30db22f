"""Protocols of synchronization, as automata over the control flow graph: asynchronous groups, barriers, matrix pipelines."""
