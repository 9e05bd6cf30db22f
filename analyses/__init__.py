"""What is true of a program. Each analysis is one module with one public function from an immutable thing to a frozen result."""

from __future__ import annotations

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import BasicBlock, ControlFlow, control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import Facts, Rule, all_rules
from ptxkit.analyses.linting.linting import lint
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.liveness import live_ranges, liveness
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.registers.reaching import reaching
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values

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
