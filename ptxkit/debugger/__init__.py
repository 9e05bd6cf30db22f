"""The debugger for kernels on the machine. The README beside this file explains it."""
