"""Differences between two modules, up to the names of registers and labels and the order of declarations."""

from ptxkit.analyses.comparison.alignment import align
from ptxkit.analyses.comparison.comparing import Change, Changed, Comparison, Line, compare

__all__ = ["Change", "Changed", "Comparison", "Line", "align", "compare"]
