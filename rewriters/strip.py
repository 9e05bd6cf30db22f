"""Taking out again what rewriters have put in."""

from __future__ import annotations

from ptxkit.rewriters.engine.marks import without_marked
from ptxkit.rewriters.engine.rewrite import Manifest, Rewrite
from ptxkit.syntax import Module


def strip(module: Module) -> Rewrite:
    """Takes out what instrumenting rewriters put in: byte for byte the text that was there before."""
    return Rewrite(without_marked(module), Manifest("strip"))
