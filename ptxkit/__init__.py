"""ptxkit: read, check, run and rewrite NVIDIA PTX.

`lint`, `check`, `fmt`, `requires`, `cfg`, `liveness`, `uniformity`, `draw`, `instrument`, `revalidate`, `run`, `verify`, `gate`, `repair`
and `diff` take a module, or PTX as text. `parse` gives a `Module`, an immutable tree that prints back byte for byte. Importing this
package does no work: names load when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic, Related, Severity, Span
    from ptxkit.facade import (
        Findings,
        cfg,
        check,
        diff,
        draw,
        fmt,
        gate,
        instrument,
        lint,
        liveness,
        pressure,
        repair,
        requires,
        run,
        uniformity,
        verify,
    )
    from ptxkit.names import resolve
    from ptxkit.revalidation import Outcome, Resources, Verdict, revalidate
    from ptxkit.syntax import Function, Index, Instruction, Module, Node, nodes, parse, parse_operand, parse_statement

_HOME = {
    "Findings": "ptxkit.facade",
    "cfg": "ptxkit.facade",
    "check": "ptxkit.facade",
    "diff": "ptxkit.facade",
    "draw": "ptxkit.facade",
    "fmt": "ptxkit.facade",
    "gate": "ptxkit.facade",
    "instrument": "ptxkit.facade",
    "lint": "ptxkit.facade",
    "liveness": "ptxkit.facade",
    "pressure": "ptxkit.facade",
    "requires": "ptxkit.facade",
    "repair": "ptxkit.facade",
    "run": "ptxkit.facade",
    "uniformity": "ptxkit.facade",
    "verify": "ptxkit.facade",
    "Diagnostic": "ptxkit.diagnostics",
    "Related": "ptxkit.diagnostics",
    "Severity": "ptxkit.diagnostics",
    "Span": "ptxkit.diagnostics",
    "resolve": "ptxkit.names",
    "Index": "ptxkit.syntax",
    "Outcome": "ptxkit.revalidation",
    "Resources": "ptxkit.revalidation",
    "Verdict": "ptxkit.revalidation",
    "revalidate": "ptxkit.revalidation",
    "nodes": "ptxkit.syntax",
    "Function": "ptxkit.syntax",
    "Instruction": "ptxkit.syntax",
    "Module": "ptxkit.facade",
    "Node": "ptxkit.syntax",
    "parse": "ptxkit.facade",
    "parse_operand": "ptxkit.syntax",
    "parse_statement": "ptxkit.syntax",
}

__all__ = [
    "Diagnostic",
    "Findings",
    "Function",
    "Index",
    "Instruction",
    "Module",
    "Node",
    "Outcome",
    "Related",
    "Resources",
    "Severity",
    "Span",
    "Verdict",
    "__version__",
    "analyses",
    "cfg",
    "check",
    "diff",
    "draw",
    "fmt",
    "gate",
    "instrument",
    "lint",
    "liveness",
    "machine",
    "nodes",
    "parse",
    "parse_operand",
    "parse_statement",
    "pressure",
    "repair",
    "requires",
    "resolve",
    "revalidate",
    "rewriters",
    "run",
    "uniformity",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in ("analyses", "machine", "rewriters"):
        return importlib.import_module(f"ptxkit.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ptxkit' has no attribute {name!r}")
    module = importlib.import_module(home)
    return importlib.import_module(f"{home}.nodes") if name == "nodes" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *[name for name in globals() if name.startswith("__")]})
