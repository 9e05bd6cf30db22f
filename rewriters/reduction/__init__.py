"""Reduction of a module to the smallest one that still passes a test."""

from ptxkit.rewriters.reduction.reducing import Progress, Reduced, reduced
from ptxkit.rewriters.reduction.testing import Command, Journal, Validity

__all__ = ["Command", "Journal", "Progress", "Reduced", "Validity", "reduced"]
