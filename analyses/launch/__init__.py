"""The kernels that run a function, and their numbers of threads."""
