"""What executions of kernels with example launches show. The README describes the method."""
