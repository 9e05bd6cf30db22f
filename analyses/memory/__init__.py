"""Memory accesses: the bytes that an instruction reads and writes."""
