"""Sets of threads, and which threads of a thread block execute an instruction."""
