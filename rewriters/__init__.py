"""What changes a program. A rewriter is a file in this folder with a function of the same name, from a module to a `Rewrite`."""

from __future__ import annotations

from ptxkit.rewriters.engine.edits import (
    AddParameter,
    AddToModule,
    After,
    AtEntry,
    AtExits,
    Before,
    Declare,
    Edit,
    OnEdge,
    Replace,
    apply,
    around,
    remove,
)
from ptxkit.rewriters.engine.fresh import Fresh, fresh
from ptxkit.rewriters.engine.patterns import Pattern, Site, pattern, select
from ptxkit.rewriters.engine.registry import Rewriter, all_rewriters
from ptxkit.rewriters.engine.rewrite import Argument, Manifest, Probe, Refusal, Refused, Rewrite, Variable

__all__ = [
    "AddParameter",
    "AddToModule",
    "After",
    "Argument",
    "AtEntry",
    "AtExits",
    "Before",
    "Declare",
    "Edit",
    "Fresh",
    "Manifest",
    "OnEdge",
    "Pattern",
    "Probe",
    "Refusal",
    "Refused",
    "Replace",
    "Rewrite",
    "Rewriter",
    "Site",
    "Variable",
    "all_rewriters",
    "apply",
    "around",
    "fresh",
    "pattern",
    "remove",
    "select",
]
