"""Stores that set a flag: all threads that execute one store the same value, for every input.

Unordered stores of several threads to one address race (8.7.1). Equal values in one launch do not imply equal values in the next, unless
the value cannot differ between threads.
"""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.isa.binding import Bound
from ptxkit.operands import part
from ptxkit.syntax import Node, constant_value

_NUMBERED = ("value", "phi")
_OF_ALL = ("parameter", "literal")


def sets_a_flag(routine: Routine, i: int, level: Level) -> bool:
    """Whether all threads of a group at this level necessarily store the same value with instruction `i`."""
    bound = bindings(routine)[i]
    if not isinstance(bound, Bound):
        return False
    stored = [one for one in bound.operands if one.reads and one.role != "addr" and not one.writes]
    operands = routine.instructions[i].operands
    return bool(stored) and all(_is_same(routine, i, part(operands[one.path[0]], one.path[1:]), level) for one in stored)


def _is_same(routine: Routine, i: int, node: Node, level: Level) -> bool:
    if constant_value(node) is not None:
        return True
    term = values(routine).operand(i, node)
    return term is not None and all(_leaf_is_same(routine, leaf, level) for leaf in term.leaves())


def _leaf_is_same(routine: Routine, leaf: Term, level: Level) -> bool:
    if leaf.operator in _NUMBERED and leaf.ssa_value is not None:
        return uniformity(routine).level(leaf.ssa_value) >= level
    return leaf.operator in _OF_ALL
