"""Instructions that no thread of a launch can reach for any example inputs: their conditions follow from the shape and the supplied
arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.reachability import post_order
from ptxkit.analyses.execution.launch import WORD, Argument, Given, Launch
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import evaluate
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers

MOST_THREADS = 1 << 12
"""Maximum number of threads for which conditions are evaluated."""
_SHAPES = ("%ntid", "%nctaid", "%tid", "%ctaid")


def unreachable(kernel: Routine, launch: Launch) -> frozenset[int]:
    """The instructions that no thread executes in any launch of this shape with the supplied arguments."""
    graph = control_flow(kernel)
    if not graph.blocks or graph.unknown_targets:
        return frozenset()
    holds = _conditions(kernel, launch)

    def successors(block: int) -> tuple[int, ...]:
        one = graph.blocks[block]
        always = holds(one.end - 1)
        edges = [edge for edge in one.edges if always is None or edge.via is not (Via.NOT_TAKEN if always else Via.TAKEN)]
        return tuple([edge.target for edge in edges])

    reached = set(post_order(0, successors))
    found = [i for n, one in enumerate(graph.blocks) if n not in reached for i in range(one.start, one.end)]
    guarded = [i for i, one in enumerate(kernel.instructions) if one.guard is not None and holds(i) is False]
    return frozenset([*found, *guarded])


def _conditions(kernel: Routine, launch: Launch) -> Callable[[int], bool | None]:
    """A function that says whether the guard of an instruction holds for all threads (True) or for none (False); None if it is unknown
    or differs between threads."""
    known = values(kernel)
    given = {one.name: argument for one, argument in zip(kernel.function.header.parameters, launch.arguments, strict=True)}
    made: dict[str, bytes | None] = {}
    count, threads = _threads(launch)

    def leaf(term: Term) -> Numbers | None:
        if term.operator == "special":
            return threads.get(term.name)
        if term.operator != "parameter":
            return None
        symbol, part = known.symbol(term), _part(term)
        if symbol is None or symbol.name not in given:
            return None
        if symbol.name not in made:
            made[symbol.name] = _number(given[symbol.name])
        data = (made[symbol.name] or b"")[part]
        return (int.from_bytes(data, "little"),) * count if len(data) == part.stop - part.start else None

    def holds(i: int) -> bool | None:
        guard = known.guard(i)
        numbers = evaluate(guard, lanes(leaf, count)) if guard is not None else None
        if numbers is None:
            return None
        outcomes = {bool(one) for one in numbers}
        return outcomes.pop() if len(outcomes) == 1 else None

    return holds


def _part(term: Term) -> slice:
    """The bytes of the parameter that a term refers to."""
    *_, offset, size = term.data
    assert isinstance(offset, int) and isinstance(size, int)
    return slice(offset, offset + size)


def _number(argument: Argument) -> bytes | None:
    """The bytes of an argument, if it is a scalar that the user supplied."""
    data = argument.make() if isinstance(argument, Given) else None
    if isinstance(data, int):
        return (data % (1 << 8 * WORD)).to_bytes(WORD, "little")
    return data if isinstance(data, bytes) else None


def _threads(launch: Launch) -> tuple[int, dict[str, Numbers]]:
    """Number of threads, and the value of each special register in each thread. Covers all threads of the launch, or one CTA if the
    launch is too large."""
    shape = dict(zip([f"{name}.{axis}" for name in _SHAPES[:2] for axis in "xyz"], (*launch.block, *launch.grid), strict=True))
    is_whole = launch.threads <= MOST_THREADS
    sides = (*launch.block[::-1], *(launch.grid[::-1] if is_whole else ()))
    indices = list(itertools.product(*[range(side) for side in sides])) if math.prod(sides) <= MOST_THREADS else [()]
    count = len(indices)
    found: dict[str, Numbers] = {name: (number,) * count for name, number in shape.items()}
    names = [f"{name}.{axis}" for name in _SHAPES[2:] for axis in "zyx"]
    for name, column in zip(names, zip(*indices, strict=True), strict=False):
        found[name] = column
    return count, found
