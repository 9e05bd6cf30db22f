"""Paths through a function: whether one instruction is reachable from another."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from ptxkit.analyses.cfg.dataflow import fixpoint, union
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure, nearest_first
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits, mask_of

REST = -1
"""Represents the part of a block after, or before, an instruction in it."""


def comes_to(routine: Routine, i: int, other: int) -> bool:
    """Whether a path leads from one instruction to another."""
    flow = control_flow(routine)
    start, end = flow.block_of[i], flow.block_of[other]
    if start == end and i < other:
        return True
    known = _reached(routine)
    if start not in known:
        known[start] = _from(routine, start)
    return end in known[start]


@fact
def _reached(routine: Routine) -> dict[int, frozenset[int]]:
    return {}


def _from(routine: Routine, start: int) -> frozenset[int]:
    flow = control_flow(routine)
    return frozenset(closure(flow.successors(start), flow.successors))


def met(routine: Routine, start: int, marks: Iterable[int], ends: Container[int], forwards: bool = True) -> Iterator[int]:
    """Those of the given instructions that are reachable from one (or that reach it, backwards), nearest blocks first.

    A path stops at the first of them that is in `ends`. The starting instruction is visited again if it is in a loop.
    """
    flow = control_flow(routine)
    own: dict[int, list[int]] = {}
    for mark in sorted(marks, reverse=not forwards):
        own.setdefault(flow.block_of[mark], []).append(mark)
    home = flow.block_of[start]
    # the rest of the starting block, which is not the whole block if control returns to it
    own[REST] = [mark for mark in own.get(home, ()) if (mark > start if forwards else mark < start)]
    neighbors = flow.successors if forwards else flow.predecessors

    def after(block: int) -> tuple[int, ...]:
        if any(mark in ends for mark in own.get(block, ())):
            return ()
        return neighbors(home if block == REST else block)

    for block in nearest_first([REST], after):
        for mark in own.get(block, ()):
            yield mark
            if mark in ends:
                break


def between(routine: Routine, i: int, other: int, wanted: Iterable[int]) -> set[int]:
    """Those of the given instructions that are on a path between two others that visits each of the two once."""
    marks = {*wanted, i, other}
    return (set(met(routine, i, marks, (i, other))) & set(met(routine, other, marks, (i, other), False))) - {i, other}


def states(
    routine: Routine, events: Iterable[int], step: Callable[[int, frozenset[int]], frozenset[int]]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Each event with the state before it: a set of instructions that `step` adds to and removes from, joined by union at merges.

    `step` must be monotonic. Blocks without events are skipped.
    """
    flow = control_flow(routine)
    by_block: dict[int, list[int]] = {}
    for i in sorted(events):
        if flow.block_of[i] in flow.reachable:
            by_block.setdefault(flow.block_of[i], []).append(i)

    known, kept = _ahead(routine), frozenset(by_block)
    if kept not in known:
        known[kept] = next_among({block: flow.blocks[block].successors for block in flow.order}, kept)
    ahead = known[kept]
    before: dict[int, frozenset[int]] = dict.fromkeys(ahead, frozenset())
    grown: list[int] = []

    def update(block: int) -> bool:
        state = before[block]
        for i in by_block[block]:
            state = step(i, state)
        grown[:] = [after for after in ahead[block] if not state <= before[after]]
        for after in grown:
            before[after] |= state
        return bool(grown)

    # only those that received something new are updated again
    fixpoint(tuple(ahead), update, lambda _: grown)
    for block, own in sorted(by_block.items()):
        state = before[block]
        for i in own:
            yield i, state
            state = step(i, state)


@fact
def _ahead(routine: Routine) -> dict[frozenset[int], dict[int, list[int]]]:
    """Cache: for each set of blocks, their successors within the set."""
    return {}


def next_among(onward: Mapping[int, Iterable[int]], kept: Container[int]) -> dict[int, list[int]]:
    """For each `kept` node, the kept nodes (possibly itself) that come next on paths through other nodes.

    `onward` maps each node to its successors, ordered so that most follow their predecessors; so does the result.
    """
    own = [node for node in onward if node in kept]
    # by node, the first kept nodes on paths from it, as bits
    first = dict.fromkeys(onward, 0) | {node: 1 << position for position, node in enumerate(own)}
    between = [node for node in reversed(list(onward)) if node not in kept]
    before: dict[int, list[int]] = {node: [] for node in between}
    for node in between:
        for after in onward[node]:
            if after in before:
                before[after].append(node)

    def update(node: int) -> bool:
        old, first[node] = first[node], union([first[after] for after in onward[node]])
        return first[node] != old

    fixpoint(between, update, before.__getitem__)
    return {node: [own[position] for position in bits(union([first[other] for other in onward[node]]))] for node in own}


def onward(routine: Routine, i: int) -> int:
    """The blocks reachable from an instruction without back edges, as bits."""
    flow = control_flow(routine)
    return mask_of(closure([flow.block_of[i]], lambda block: [after for after in flow.successors(block) if after > block]))


def comes_without(routine: Routine, cuts: set[int], start: int = 0) -> Callable[[int], bool]:
    """A predicate: whether an instruction is reachable from another without passing any of the cuts."""
    flow = control_flow(routine)
    if start >= len(flow.block_of):
        return lambda i: False
    first: dict[int, int] = {}
    for i in sorted(cuts, reverse=True):
        first[flow.block_of[i]] = i
    home = flow.block_of[start]
    here = [i for i in cuts if flow.block_of[i] == home and i >= start]
    # the rest of the block, then all that follows
    seen = closure(() if here else flow.successors(home), lambda block: () if block in first else flow.successors(block))

    def comes(i: int) -> bool:
        if flow.block_of[i] == home and start <= i <= min(here, default=i):
            return True
        return flow.block_of[i] in seen and i <= first.get(flow.block_of[i], i)

    return comes
