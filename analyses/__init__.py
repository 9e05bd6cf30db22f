"""What is true of a program. Each analysis is one module with one public function from an immutable thing to a frozen result."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# its package has the same name, and whichever is loaded last is what the name means
from ptxkit.analyses.registers.registers import registers

if TYPE_CHECKING:
    from ptxkit.analyses.cfg.dominators import dominators
    from ptxkit.analyses.cfg.graph import BasicBlock, ControlFlow, control_flow
    from ptxkit.analyses.cfg.loops import loops
    from ptxkit.analyses.comparison import compare
    from ptxkit.analyses.drawing import draw
    from ptxkit.analyses.framework.routine import Routine, routines
    from ptxkit.analyses.framework.rule import Facts, Rule, all_rules
    from ptxkit.analyses.linting.linting import lint
    from ptxkit.analyses.memory.accesses import accesses
    from ptxkit.analyses.registers.liveness import live_ranges, liveness
    from ptxkit.analyses.registers.pressure import pressure
    from ptxkit.analyses.registers.reaching import reaching
    from ptxkit.analyses.registers.ssa import ssa
    from ptxkit.analyses.symbolic.values import values
    from ptxkit.analyses.uniformity.uniformity import uniformity

_HOME = {
    "BasicBlock": "cfg.graph",
    "ControlFlow": "cfg.graph",
    "Facts": "framework.rule",
    "Routine": "framework.routine",
    "Rule": "framework.rule",
    "accesses": "memory.accesses",
    "all_rules": "framework.rule",
    "compare": "comparison",
    "control_flow": "cfg.graph",
    "dominators": "cfg.dominators",
    "draw": "drawing",
    "lint": "linting.linting",
    "live_ranges": "registers.liveness",
    "liveness": "registers.liveness",
    "loops": "cfg.loops",
    "pressure": "registers.pressure",
    "reaching": "registers.reaching",
    "routines": "framework.routine",
    "ssa": "registers.ssa",
    "uniformity": "uniformity.uniformity",
    "values": "symbolic.values",
}
"""Where each name is defined, which is loaded when it is first asked for."""

__all__ = [
    "BasicBlock",
    "ControlFlow",
    "Facts",
    "Routine",
    "Rule",
    "accesses",
    "all_rules",
    "compare",
    "control_flow",
    "dominators",
    "draw",
    "lint",
    "live_ranges",
    "liveness",
    "loops",
    "pressure",
    "reaching",
    "registers",
    "routines",
    "ssa",
    "uniformity",
    "values",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'ptxkit.analyses' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ptxkit.analyses.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *[name for name in globals() if name.startswith("__")]})
