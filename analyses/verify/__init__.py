"""The verdict on a kernel and its launch."""
