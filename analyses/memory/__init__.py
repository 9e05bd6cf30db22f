"""Memory accesses: which bytes an instruction reads and writes."""
