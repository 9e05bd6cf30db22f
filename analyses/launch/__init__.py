"""Which kernels run a function, and by how many threads."""
