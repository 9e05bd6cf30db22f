"""Removes code that never runs or has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.isa.binding import Bound
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.registers import special_register
from ptxkit.isa.shapes import OperandShape
from ptxkit.rewriters.engine.points import is_block_pragma, is_bound_pragma, points
from ptxkit.rewriters.engine.rewrite import Manifest, Refused, Rewrite, debugging, require_readable
from ptxkit.rewriters.engine.tree import without
from ptxkit.syntax import Loc, Module, Path


def dead_code(module: Module, *, kernel: str = "") -> Rewrite:
    """Removes unreachable instructions, and those whose results nothing reads and that have no other effect.

    Stores, volatile and atomic accesses, barriers, fences, reads of clocks, calls and anything the instruction table does not know are
    kept. If a branch goes to a label that does not exist, unreachable code is kept too. Labels and declarations are always kept.

    * `kernel`: Only in these kernels or functions: names with commas; by default, in all.

    Raises Refused for a module with syntax errors, and for one with debugging data, which names the registers that hold variables;
    ValueError for an unknown function.
    """
    require_readable(module)
    wanted = set(kernel.replace(",", " ").split())
    known = {found.name for found in module.functions}
    missing = sorted(wanted - known)
    if missing:
        raise ValueError(f"no function is called {missing[0]!r}; there are {', '.join(sorted(known)) or 'none'}")
    refusals = debugging(module)
    if refusals:
        raise Refused(module, refusals)
    gone: set[Path] = set()
    changes = []
    for routine in routines(module):
        if wanted and routine.name not in wanted:
            continue
        never, useless = unreachable(routine), unused(routine)
        for i in sorted(never | useless):
            path = routine.where(i)
            gone.add(path)
            gone.update(_pragmas(module, path, i in never))
        if never or useless:
            changes.append(f"{routine.name}: {len(never)} unreachable, {len(useless)} unused")
    return Rewrite(without(module, lambda path, _: path in gone), Manifest("dead_code", {"kernel": kernel}, changes=tuple(changes)))


def _pragmas(module: Module, path: Path, is_unreachable: bool) -> Iterator[Path]:
    """The pragmas before a removed instruction, which would otherwise apply to the next one."""
    children = module.at(path[:-1]).children
    for at in range(path[-1] - 1, -1, -1):
        if is_bound_pragma(children[at]) or (is_unreachable and is_block_pragma(children[at])):
            yield (*path[:-1], at)
        elif not isinstance(children[at], Loc):
            return


def unreachable(routine: Routine) -> frozenset[int]:
    """The unreachable instructions; none if the control flow graph is not certain."""
    flow = control_flow(routine)
    if flow.unknown_targets:
        return frozenset()
    return frozenset([i for i, block in enumerate(flow.block_of) if block not in flow.reachable])


def unused(routine: Routine) -> frozenset[int]:
    """The reachable instructions whose only effect is to write registers that nothing relevant reads."""
    flow, bounds, values = control_flow(routine), bindings(routine), ssa(routine)
    if flow.unknown_targets:
        return frozenset()
    sequence = points(routine).sequence
    removable: dict[int, bool] = {}
    reached = [i for i, block in enumerate(flow.block_of) if block in flow.reachable]
    needed: set[int] = set()
    for i in reached:
        bound = bounds[i]
        can_go = removable.get(id(bound))
        if can_go is None:
            can_go = removable[id(bound)] = is_pure(bound)
        if not can_go or not values.definitions[i] or sequence[i] >= 0:
            needed.add(i)
    seen: set[int] = set()
    work = [value for i in needed for value in values.uses[i]]
    # the value that remains when the guard fails is needed as well
    work += [old for i in needed for value in values.definitions[i] for old in values.values[value].operands]
    while work:
        number = work.pop()
        if number < 0 or number in seen:
            continue
        seen.add(number)
        value = values.values[number]
        work += value.operands
        if value.origin is Origin.WRITE and value.instruction not in needed:
            needed.add(value.instruction)
            work += values.uses[value.instruction]
            work += [old for other in values.definitions[value.instruction] for old in values.values[other].operands]
    return frozenset(reached) - needed


def is_pure(bound: Bound | Mismatch) -> bool:
    """Whether an instruction only computes the registers it writes, so that it may be removed if nothing reads them."""
    if isinstance(bound, Mismatch) or not bound.form.modelled:
        return False
    if bound.flow or bound.effects or bound.barrier or bound.asynchronous or bound.completes or bound.converges is not None:
        return False
    if any(memory.access != "read" or memory.is_async or memory.order not in ("", "weak") for memory in bound.memory):
        return False
    return not any(_is_volatile(operand.shape) for operand in bound.operands)


def _is_volatile(shape: OperandShape) -> bool:
    if shape.kind == "special":
        found = special_register(shape.type)
        return found is None or found.volatile
    return shape.kind == "unknown" or any(map(_is_volatile, shape.parts))
