"""What is true of a program. Each analysis is one module with one public function from an immutable thing to a frozen result."""

from __future__ import annotations

from ptxkit.analyses.cfg import BasicBlock, ControlFlow, control_flow
from ptxkit.analyses.linting import lint
from ptxkit.analyses.rule import Facts, Rule, all_rules

__all__ = ["BasicBlock", "ControlFlow", "Facts", "Rule", "all_rules", "control_flow", "lint"]
