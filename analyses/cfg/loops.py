"""The loop forest of a function, irreducible loops included (Havlak).

A loop belongs to its header, a block that has back edges from blocks that a depth-first walk reaches through it. The loop contains what
reaches those blocks without leaving what is reached through the header. If control enters by other blocks too, the loop is irreducible; its
header is then the entry that the walk reaches first.
"""

from __future__ import annotations

from functools import cached_property

import attrs

from ptxkit.analyses.cfg.dominators import depth_first
from ptxkit.analyses.cfg.graph import ControlFlow, control_flow
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.numbers.bits import bits
from ptxkit.frozen import frozen


@frozen
class Loop:
    """A loop. Blocks are given by index; sets of them are bit masks."""

    index: int
    header: int
    entries: tuple[int, ...]
    """The blocks by which control enters, header first; just the header if the loop is reducible."""
    blocks: int
    """The set of its blocks, inner loops included."""
    latches: tuple[int, ...]
    """The blocks with a back edge to the header."""
    parent: int | None
    """The index of the enclosing loop."""
    depth: int
    """1 for an outermost loop."""

    @property
    def is_reducible(self) -> bool:
        return len(self.entries) == 1

    def __contains__(self, block: int) -> bool:
        return bool(self.blocks >> block & 1)


@frozen(eq=False)
class LoopForest:
    """All loops, outer before inner."""

    loops: tuple[Loop, ...]
    innermost: tuple[int | None, ...]
    """By block, the index of the innermost loop around it."""
    _flow: ControlFlow = attrs.field(repr=False)

    def depth(self, block: int) -> int:
        """The number of loops around a block."""
        inner = self.innermost[block]
        return 0 if inner is None else self.loops[inner].depth

    def exits(self, loop: Loop) -> tuple[tuple[int, int], ...]:
        """The exit edges of a loop, as pairs of blocks. Leaving the function is not an edge."""
        return self._exits[loop.index]

    @cached_property
    def _exits(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        blocks = self._flow.blocks
        return tuple(
            [
                tuple([(block, to) for block in bits(loop.blocks) for to in blocks[block].successors if not loop.blocks >> to & 1])
                for loop in self.loops
            ]
        )

    @cached_property
    def headers(self) -> frozenset[int]:
        """The headers of all loops."""
        return frozenset([loop.header for loop in self.loops])

    def __repr__(self) -> str:
        return f"<LoopForest of {len(self.loops)} loops>"


@fact
def loops(routine: Routine) -> LoopForest:
    """The loops among the blocks that control can reach.

    For instance:

        >>> from ptxkit import parse
        >>> from ptxkit.analyses import routines
        >>> body = "LOOP: add.u32 %r, %r, 1; setp.lt.u32 %p, %r, 9; @%p bra LOOP; ret;"
        >>> (kernel,) = routines(parse(f".entry k() {{ .reg .pred %p; .reg .b32 %r; {body} }}"))
        >>> [(loop.header, bin(loop.blocks)) for loop in loops(kernel).loops]
        [(0, '0b1')]
    """
    flow = control_flow(routine)
    count = len(flow.blocks)
    if not count:
        return LoopForest((), (), flow)
    number, vertex, parent_of = depth_first(count, 0, lambda block: flow.blocks[block].successors)
    around, back = _nesting(flow, number, vertex, parent_of)
    # in the order of the walk, a header follows those around it
    index_of: dict[int, int] = {}
    for node in range(len(vertex)):
        if back[node]:
            index_of[node] = len(index_of)
    innermost: list[int | None] = [None] * count
    for node, block in enumerate(vertex):
        inner = node if back[node] else around[node]
        innermost[block] = index_of[inner] if inner >= 0 else None
    parents = [index_of[around[node]] if around[node] >= 0 else None for node in index_of]
    headers = [vertex[node] for node in index_of]
    entries = _entries(flow, innermost, parents, headers)
    found: list[Loop] = []
    for (node, index), blocks in zip(index_of.items(), _blocks(innermost, parents), strict=True):
        parent = parents[index]
        depth = 1 if parent is None else found[parent].depth + 1
        latches = tuple(sorted([vertex[latch] for latch in back[node]]))
        found.append(Loop(index, headers[index], (headers[index], *entries[index]), blocks, latches, parent, depth))
    return LoopForest(tuple(found), tuple(innermost), flow)


def _nesting(flow: ControlFlow, number: list[int], vertex: list[int], parent_of: list[int]) -> tuple[list[int], list[list[int]]]:
    """By number in the walk: the header of the innermost enclosing loop (not the block's own; -1: none), and the sources of back edges
    to it."""
    size = len(vertex)
    # blocks reached through a block have the numbers after its own, up to its last
    last = list(range(size))
    for node in range(size - 1, 0, -1):
        last[parent_of[node]] = max(last[parent_of[node]], last[node])
    back: list[list[int]] = [[] for _ in range(size)]
    other: list[set[int]] = [set() for _ in range(size)]
    for node, block in enumerate(vertex):
        for before in flow.blocks[block].predecessors:
            source = number[before]
            if source >= 0:
                if node <= source <= last[node]:
                    back[node].append(source)
                else:
                    other[node].add(source)
    around = [-1] * size
    leader = list(range(size))

    def find(node: int) -> int:
        root = node
        while leader[root] != root:
            root = leader[root]
        while leader[node] != root:
            leader[node], node = root, leader[node]
        return root

    for header in range(size - 1, -1, -1):
        body = {find(source) for source in back[header]} - {header}
        work = list(body)
        while work:
            for source in other[work.pop()]:
                inside = find(source)
                if not header <= inside <= last[header]:
                    other[header].add(inside)
                elif inside != header and inside not in body:
                    body.add(inside)
                    work.append(inside)
        for node in body:
            around[node] = leader[node] = header
    return around, back


def _blocks(innermost: list[int | None], parents: list[int | None]) -> list[int]:
    """The blocks of each loop."""
    found = [0] * len(parents)
    for block, inner in enumerate(innermost):
        if inner is not None:
            found[inner] |= 1 << block
    for index in range(len(parents) - 1, -1, -1):
        parent = parents[index]
        if parent is not None:
            found[parent] |= found[index]
    return found


def _entries(flow: ControlFlow, innermost: list[int | None], parents: list[int | None], headers: list[int]) -> list[list[int]]:
    """For each loop, the blocks other than its header that control enters from outside."""
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent is None else depths[parent] + 1)
    found: list[list[int]] = [[] for _ in parents]
    for block in flow.blocks:
        inner = innermost[block.index]
        if inner is None:
            continue
        for before in block.predecessors:
            if before not in flow.reachable:
                continue
            # the loops around the block, up to the first that also contains the predecessor
            entered, source = inner, innermost[before]
            chain = []
            at: int | None = entered
            while at is not None and at != source:
                while source is not None and depths[source] > depths[at]:
                    source = parents[source]
                if at == source:
                    break
                chain.append(at)
                at = parents[at]
            for index in chain:
                if headers[index] != block.index and block.index not in found[index]:
                    found[index].append(block.index)
    return found
