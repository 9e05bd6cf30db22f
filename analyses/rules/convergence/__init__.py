"""Convergence."""

WORDS = ("activemask", "aligned", "bar", "setmaxnreg", "shfl", "sync", "uni", "vote")
