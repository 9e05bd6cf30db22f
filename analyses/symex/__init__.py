"""Symbolic execution of one thread: path conditions and the queue of asynchronous operations along a path."""
