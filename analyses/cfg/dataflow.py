"""The dataflow solver: over a function's blocks, or as a plain fixpoint over any dependent nodes.

A problem consists of a direction, the boundary state, and two functions: one joins states at control-flow merges, one transfers a state
through a block. States are compared with `==`; sets of registers, definitions or blocks are bit masks. The transfer function must treat a
conditional write as a weak update: it adds to a state and removes nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from ptxkit.analyses.cfg.graph import ControlFlow
from ptxkit.frozen import frozen

State = TypeVar("State")
Node = TypeVar("Node", bound=Hashable)


@frozen
class Solution(Generic[State]):
    """The state before and after each block, in document order regardless of the direction."""

    before: tuple[State, ...]
    after: tuple[State, ...]


def solve(
    flow: ControlFlow,
    transfer: Callable[[int, State], State],
    join: Callable[[Iterable[State]], State],
    boundary: Callable[[int], State | None],
    bottom: State,
    backward: bool = False,
) -> Solution[State]:
    """The least solution, from `bottom` upwards.

    `boundary` gives the state that enters a block from outside: at the entry of the function (block 0), or, backward, at its ends; None if
    nothing does. Blocks are processed in reverse post-order (backward: in post-order), unreachable ones last. Terminates if states can grow
    only finitely often.
    """
    count = len(flow.blocks)
    inputs: list[State] = [bottom] * count
    outputs: list[State] = [bottom] * count
    order = list(flow.order)
    if len(order) < count:
        order += [block for block in range(count) if block not in flow.reachable]
    if backward:
        order.reverse()
    sources = flow.successors if backward else flow.predecessors
    boundaries = [boundary(block) for block in range(count)]

    def update(block: int) -> bool:
        incoming = [outputs[source] for source in sources(block)]
        outside = boundaries[block]
        if outside is not None:
            incoming.append(outside)
        inputs[block] = join(incoming) if incoming else bottom
        old, outputs[block] = outputs[block], transfer(block, inputs[block])
        return outputs[block] != old

    fixpoint(order, update, flow.predecessors if backward else flow.successors)
    return Solution(tuple(outputs), tuple(inputs)) if backward else Solution(tuple(inputs), tuple(outputs))


def fixpoint(nodes: Sequence[Node], update: Callable[[Node], bool], users: Callable[[Node], Iterable[Node]]) -> None:
    """Updates each node, and again whenever one that it depends on has changed, until none changes.

    `update` says whether a node has changed, and `users` which nodes must then be updated. Nodes are processed in sweeps, in the order of
    `nodes`: an update of an earlier node waits for the next sweep, so that a loop header is not updated again for each latch.
    """
    rank = {node: position for position, node in enumerate(nodes)}
    pending = bytearray(b"\1" * len(nodes))
    queue = list(range(len(nodes)))
    later: list[int] = []
    while queue or later:
        if not queue:
            queue, later = sorted(later), []
        position = heapq.heappop(queue)
        node = nodes[position]
        pending[position] = 0
        if not update(node):
            continue
        for user in users(node):
            at = rank[user]
            if not pending[at]:
                pending[at] = 1
                if at > position:
                    heapq.heappush(queue, at)
                else:
                    later.append(at)


def union(masks: Iterable[int]) -> int:
    """The union of bit sets: the join of a may analysis."""
    found = 0
    for mask in masks:
        found |= mask
    return found
