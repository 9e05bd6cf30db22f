"""Execution of a kernel for one launch under all monitors. The README describes the result."""
