"""Paths through a function: whether control may come from one instruction to another."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from ptxkit.analyses.cfg.dataflow import union
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits


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
    seen: set[int] = set()
    work = list(flow.blocks[start].successors)
    while work:
        at = work.pop()
        if at not in seen:
            seen.add(at)
            work += flow.blocks[at].successors
    return frozenset(seen)


def between(routine: Routine, i: int, other: int, wanted: Iterable[int]) -> set[int]:
    """Those of some instructions that stand on a path from one to another which comes to each of the two but once."""
    marks = sorted({*wanted, i, other})
    return (_met(routine, i, other, marks, True) & _met(routine, other, i, marks, False)) - {i, other}


def _met(routine: Routine, start: int, stop: int, marks: list[int], forwards: bool) -> set[int]:
    """The marks that are met from an instruction on, forwards or backwards, up to another or back to itself."""
    flow = control_flow(routine)
    own: dict[int, list[int]] = {}
    for mark in marks if forwards else marks[::-1]:
        own.setdefault(flow.block_of[mark], []).append(mark)
    first = flow.block_of[start]
    seen: set[int] = set()
    found: set[int] = set()
    work = [(first, own[first][own[first].index(start) + 1 :])]
    while work:
        block, ahead = work.pop()
        ends = False
        for mark in ahead:
            found.add(mark)
            if mark in (start, stop):
                ends = True
                break
        if ends:
            continue
        for after in flow.blocks[block].successors if forwards else flow.blocks[block].predecessors:
            if after not in seen:
                seen.add(after)
                work.append((after, own.get(after, [])))
    return found


def states(
    routine: Routine, events: Iterable[int], step: Callable[[int, frozenset[int]], frozenset[int]]
) -> Iterator[tuple[int, frozenset[int]]]:
    """Each event with what may hold before it: sets of instructions that `step` adds to and takes from, united where paths merge.

    A step leads from more to no less. Blocks without events are passed over.
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
    pending = set(ahead)
    while pending:
        for block, following in ahead.items():
            if block not in pending:
                continue
            pending.remove(block)
            state = before[block]
            for i in by_block[block]:
                state = step(i, state)
            for after in following:
                if not state <= before[after]:
                    before[after] |= state
                    pending.add(after)
    for block, own in sorted(by_block.items()):
        state = before[block]
        for i in own:
            yield i, state
            state = step(i, state)


@fact
def _ahead(routine: Routine) -> dict[frozenset[int], dict[int, list[int]]]:
    """By blocks, which of them come next."""
    return {}


def next_among(onward: Mapping[int, Iterable[int]], kept: Container[int]) -> dict[int, list[int]]:
    """By node of some that are `kept`, the others of them, or itself, that come next on paths through the nodes between.

    `onward` has the successors of each node, in an order in which most come after those that they follow; so has what is returned.
    """
    own = [node for node in onward if node in kept]
    # by node, what is kept and comes first if one starts there, as bits
    first = dict.fromkeys(onward, 0) | {node: 1 << position for position, node in enumerate(own)}
    between = [(node, after) for node, after in reversed(list(onward.items())) if node not in kept]
    changed = True
    while changed:
        changed = False
        for node, after in between:
            found = 0
            for other in after:
                found |= first[other]
            if found != first[node]:
                first[node] = found
                changed = True
    return {node: [own[position] for position in bits(union([first[other] for other in onward[node]]))] for node in own}


def onward(routine: Routine, i: int) -> int:
    """The blocks that control comes to from an instruction without going back, as bits."""
    flow = control_flow(routine)
    found = 1 << flow.block_of[i]
    work = [flow.block_of[i]]
    while work:
        block = work.pop()
        for after in flow.blocks[block].successors:
            if after > block and not found >> after & 1:
                found |= 1 << after
                work.append(after)
    return found


def comes_without(routine: Routine, cuts: set[int], start: int = 0) -> Callable[[int], bool]:
    """Speaks of an instruction whether control can come to it, from another on, without any of some that are between."""
    flow = control_flow(routine)
    if start >= len(flow.block_of):
        return lambda i: False
    first: dict[int, int] = {}
    for i in sorted(cuts, reverse=True):
        first[flow.block_of[i]] = i
    home = flow.block_of[start]
    here = [i for i in cuts if flow.block_of[i] == home and i >= start]
    seen: set[int] = set()
    # the rest of the block, then all that follows
    work = [] if here else list(flow.blocks[home].successors)
    seen.update(work)
    while work:
        block = work.pop()
        if block in first:
            continue
        for after in flow.blocks[block].successors:
            if after not in seen:
                seen.add(after)
                work.append(after)

    def comes(i: int) -> bool:
        if flow.block_of[i] == home and start <= i <= min(here, default=i):
            return True
        return flow.block_of[i] in seen and i <= first.get(flow.block_of[i], i)

    return comes
