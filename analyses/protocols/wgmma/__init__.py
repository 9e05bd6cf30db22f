"""wgmma: fences and waits for registers, and matrices in shared memory that are released too early."""
