"""Profiling of an instrumented module: launching a kernel, through the CUDA driver or on the machine, comparing runs, and showing
tables."""
