"""From an instrumented module to numbers: how a kernel is launched, run through the CUDA driver, compared, and its tables shown."""
