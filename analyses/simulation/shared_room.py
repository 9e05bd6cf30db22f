"""How many threads the shared variables of a kernel have room for, when each thread has its own part of them."""

from __future__ import annotations

from collections.abc import Iterable

from ptxkit.analyses.events.steps import Does, Step, steps
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import size_of
from ptxkit.analyses.simulation.traces import Trace, layout
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.names import Symbol


@frozen
class Extent:
    """How far from the start of a shared variable it is accessed, and written, in bytes; and its size."""

    accessed: int
    written: int
    size: int


def extents(routine: Routine, traces: Iterable[Trace]) -> dict[str, Extent]:
    """How far each shared variable of a known size is used."""
    accessed = variables(routine)
    found: dict[str, Extent] = {}
    for trace in traces:
        for event in trace.events:
            variable = accessed.get(event.step)
            if variable is None or not event.address:
                continue
            name, base, size = variable
            end = max(event.address) - base + (event.bytes or 1)
            before = found.get(name, Extent(0, 0, size))
            written = end if event.step.does is Does.WRITE else 0
            found[name] = Extent(max(end, before.accessed), max(written, before.written), size)
    return found


@fact
def variables(routine: Routine) -> dict[Step, tuple[str, int, int]]:
    """By access of a shared variable of a known size: its name, where it starts, and its size."""
    known, indices = values(routine), layout(routine)
    found: dict[Step, tuple[str, int, int]] = {}
    for own in steps(routine).values():
        for step in own:
            if step.does not in (Does.READ, Does.WRITE) or step.address is None:
                continue
            symbols = [known.symbol(leaf) for leaf in step.address.leaves() if leaf.operator == "address"]
            one: Symbol | None = symbols[0] if len(symbols) == 1 else None
            base = indices.get((one.name, one.path)) if one is not None else None
            size = size_of(one) if one is not None else None
            if one is not None and base is not None and size:
                found[step] = one.name, base, size
    return found


def has_room(of: dict[str, Extent]) -> bool:
    """Whether all that is accessed lies inside of its variable."""
    return all(0 < one.accessed <= one.size for one in of.values())


def grows(few: dict[str, Extent], many: dict[str, Extent]) -> bool:
    """Whether more threads fill more of some variable, and more than its half: it is as large as they need it."""
    return any(2 * one.written > one.size and name in few and few[name].written < one.written for name, one in many.items())
