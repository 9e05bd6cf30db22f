"""Sets of threads, and the threads of a CTA that execute an instruction."""
