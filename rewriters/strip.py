"""Removes what rewriters have inserted."""

from __future__ import annotations

from ptxkit.rewriters.engine.marks import without_marked
from ptxkit.rewriters.engine.rewrite import Manifest, Rewrite
from ptxkit.syntax import Module


def strip(module: Module) -> Rewrite:
    """Removes everything that instrumenting rewriters have inserted, which restores the original text byte for byte."""
    return Rewrite(without_marked(module), Manifest("strip"))
