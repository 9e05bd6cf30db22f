"""What executions of kernels show, with launches that were made up. The README says how."""
