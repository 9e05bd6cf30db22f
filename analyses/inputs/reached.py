"""A kernel together with the functions that it may call: what they read and execute, and their shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.bindings import has_matching, matching, specials
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.callers import module_calls
from ptxkit.analyses.memory.accesses import accesses, size_of
from ptxkit.isa.binding import Bound
from ptxkit.memo import per_object
from ptxkit.names import Kind, Names, Symbol
from ptxkit.syntax import Name


@fact
def reached(routine: Routine) -> tuple[Routine, ...]:
    """A kernel and the functions of the module that it may call."""
    siblings = routine.siblings or [routine]
    if _has_only_kernels(siblings[0]):
        return (routine,)
    names = module_calls(siblings[0]).reached_from(routine.name)
    return (routine, *[one for one in siblings if one.name in names and one is not routine])


@fact
def _has_only_kernels(routine: Routine) -> bool:
    """Whether a module has no callable functions; evaluated for its first function."""
    return all(one.function.header.is_entry for one in routine.siblings or [routine])


@fact
def read(routine: Routine) -> frozenset[str]:
    """The special registers that a kernel or a function it calls reads."""
    return frozenset().union(*[specials(one) for one in reached(routine)])


def needs(routine: Routine, level: str) -> bool:
    """Whether threads of a level (`warp`, `warpgroup`, `cta`, `cluster`) must execute some instruction together."""

    def holds(bound: Bound) -> bool:
        return bound.converges is not None and bound.converges.level == level

    return any(has_matching(one, holds) for one in reached(routine))


def meets_in_loops(routine: Routine) -> bool:
    """Whether the threads of a CTA synchronize inside a loop."""

    def holds(bound: Bound) -> bool:
        return bound.converges is not None and bound.converges.level == "cta"

    for one in reached(routine):
        block_of, inner = control_flow(one).block_of, loops(one).innermost
        if any(inner[block_of[i]] is not None for i, _ in matching(one, holds)):
            return True
    return False


def shared_variables(routine: Routine) -> Iterator[Symbol]:
    """The shared variables of the module that are referenced."""
    seen = set()
    for one in reached(routine):
        for symbol in one.names.root.symbols.values():
            is_shared = symbol.kind is Kind.VARIABLE and (symbol.space or "").startswith(".shared")
            if is_shared and symbol.name not in seen and one.names.is_used(symbol):
                seen.add(symbol.name)
                yield symbol


@fact
def has_dynamic_shared(routine: Routine) -> bool:
    """Whether a kernel uses shared memory of unspecified size: through a variable, or by addresses from 0 if the module has no shared
    variable."""
    declared = _declared_shared(routine.names)
    if not declared:
        return any(access.space == ".shared" for one in reached(routine) for access in accesses(one))
    names = {symbol.name for symbol in declared if symbol.is_open_ended and (size_of(symbol) or 0) <= 1}
    return bool(names) and any(node.text in names for one in reached(routine) for node in one.function.find(Name))


@per_object
def _declared_shared(names: Names) -> list[Symbol]:
    """The shared variables that the module and its functions declare."""
    symbols = [symbol for scope in names.all_scopes for symbol in scope.symbols.values()]
    return [symbol for symbol in symbols if symbol.kind is Kind.VARIABLE and (symbol.space or "").startswith(".shared")]
