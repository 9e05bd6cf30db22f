"""What executions of kernels with made-up launches show. The README describes the method."""
