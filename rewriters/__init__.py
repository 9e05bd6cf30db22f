"""Program transformations. A rewriter is a file in this folder that defines a function of the same name, from a module to a `Rewrite`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from ptxkit.rewriters.probing import Instrumented, instrument
    from ptxkit.rewriters.running import Run, instrumented
    from ptxkit.rewriters.triton_hook import TritonRun, instrument_triton

_HOME = {  # loaded when first asked for
    "Instrumented": "probing",
    "Run": "running",
    "TritonRun": "triton_hook",
    "instrument": "probing",
    "instrument_triton": "triton_hook",
    "instrumented": "running",
}

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
    "Instrumented",
    "Manifest",
    "OnEdge",
    "Pattern",
    "Probe",
    "Refusal",
    "Refused",
    "Replace",
    "Rewrite",
    "Rewriter",
    "Run",
    "Site",
    "TritonRun",
    "Variable",
    "all_rewriters",
    "apply",
    "around",
    "fresh",
    "instrument",
    "instrument_triton",
    "instrumented",
    "pattern",
    "remove",
    "select",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ptxkit.rewriters' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ptxkit.rewriters.{_HOME[name]}"), name)
