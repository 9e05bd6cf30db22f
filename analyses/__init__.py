"""What is true of a program. Each analysis is one module with one public function from an immutable thing to a frozen result."""

from __future__ import annotations

from ptxkit.analyses.accesses import accesses
from ptxkit.analyses.cfg import BasicBlock, ControlFlow, control_flow
from ptxkit.analyses.dominators import dominators
from ptxkit.analyses.linting import lint
from ptxkit.analyses.liveness import live_ranges, liveness
from ptxkit.analyses.loops import loops
from ptxkit.analyses.pressure import pressure
from ptxkit.analyses.reaching import reaching
from ptxkit.analyses.registers import registers
from ptxkit.analyses.routine import Routine, routines
from ptxkit.analyses.rule import Facts, Rule, all_rules
from ptxkit.analyses.ssa import ssa
from ptxkit.analyses.values import values

__all__ = [
    "BasicBlock",
    "ControlFlow",
    "Facts",
    "Routine",
    "Rule",
    "accesses",
    "all_rules",
    "control_flow",
    "dominators",
    "lint",
    "live_ranges",
    "liveness",
    "loops",
    "pressure",
    "reaching",
    "registers",
    "routines",
    "ssa",
    "values",
]
