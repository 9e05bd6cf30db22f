"""The debugger of kernels on the machine. The README beside this file explains it."""
