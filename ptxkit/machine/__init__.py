"""The machine: PTX, executed on the CPU."""
