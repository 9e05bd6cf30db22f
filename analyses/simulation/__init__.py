"""A thread block simulated thread by thread, its traces run side by side."""
