"""The loops of a function, nested, those with several entries included.

A loop is a strongly connected part of the graph, and the loops in it are those of that part once the edges back to its header are taken
away (the forest of Steensgaard, which is that of Havlak where control flow is reducible). The header is the block by which control enters;
where there are several, the first of them in reverse post-order, and the loop is irreducible.
"""

from __future__ import annotations

from functools import cached_property

import attrs

from ptxkit.analyses.bits import mask_of
from ptxkit.analyses.cfg import ControlFlow, control_flow
from ptxkit.analyses.dominators import components
from ptxkit.analyses.routine import Routine, fact


@attrs.frozen
class Loop:
    """A loop. All blocks are named by their index; sets of them are bits."""

    index: int
    header: int
    entries: tuple[int, ...]
    """The blocks by which control comes in, the header first: one, if the loop is reducible."""
    blocks: int
    """The set of its blocks, those of inner loops included."""
    latches: tuple[int, ...]
    """The blocks from which control goes back to the header."""
    exits: tuple[tuple[int, int], ...]
    """The edges that lead out, as pairs of blocks. Where control leaves the function, there is none."""
    parent: int | None
    """The index of the innermost loop around it."""
    depth: int
    """1 for an outermost loop."""

    @property
    def is_reducible(self) -> bool:
        return len(self.entries) == 1

    def __contains__(self, block: int) -> bool:
        return bool(self.blocks >> block & 1)


@attrs.frozen(eq=False)
class LoopForest:
    """All loops, outer ones before those in them."""

    loops: tuple[Loop, ...]
    innermost: tuple[int | None, ...]
    """By block, the index of the innermost loop around it."""

    def depth(self, block: int) -> int:
        """How many loops are around a block."""
        inner = self.innermost[block]
        return 0 if inner is None else self.loops[inner].depth

    @cached_property
    def headers(self) -> frozenset[int]:
        """The headers of all loops."""
        return frozenset([loop.header for loop in self.loops])


@fact
def loops(routine: Routine) -> LoopForest:
    """The loops among the blocks that control can reach."""
    flow = control_flow(routine)
    found: list[Loop] = []
    innermost: list[int | None] = [None] * len(flow.blocks)
    # each entry: the blocks of a part, the loop around it, and the headers whose edges back no longer count
    work: list[tuple[tuple[int, ...], int | None]] = [(flow.order, None)]
    rank = [0] * len(flow.blocks)
    for place, block in enumerate(flow.order):
        rank[block] = place
    headers: set[int] = set()
    while work:
        nodes, parent = work.pop()
        parts = components(nodes, lambda block: [s for s in flow.blocks[block].successors if s not in headers])
        inner: list[tuple[tuple[int, ...], int | None]] = []
        cycles = [part for part in parts if _is_cycle(flow, part, headers)]
        for part in sorted(cycles, key=lambda part: min([rank[block] for block in part])):
            loop = _loop(flow, part, rank, len(found), parent, found)
            found.append(loop)
            for block in part:
                innermost[block] = loop.index
            inner.append((tuple([block for block in part if block != loop.header]), loop.index))
            headers.add(loop.header)
        work += reversed(inner)
    return LoopForest(tuple(found), tuple(innermost))


def _is_cycle(flow: ControlFlow, part: list[int], headers: set[int]) -> bool:
    return len(part) > 1 or (part[0] in flow.blocks[part[0]].successors and part[0] not in headers)


def _loop(flow: ControlFlow, part: list[int], rank: list[int], index: int, parent: int | None, found: list[Loop]) -> Loop:
    inside = set(part)
    entries = [b for b in part if not rank[b] or any(p not in inside and p in flow.reachable for p in flow.blocks[b].predecessors)]
    entries.sort(key=lambda block: rank[block])
    header = entries[0]
    latches = tuple(sorted([p for p in flow.blocks[header].predecessors if p in inside]))
    exits = tuple([(block, s) for block in sorted(part) for s in flow.blocks[block].successors if s not in inside])
    depth = 1 if parent is None else found[parent].depth + 1
    return Loop(index, header, tuple(entries), mask_of(part), latches, exits, parent, depth)

