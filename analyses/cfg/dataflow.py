"""The one engine that solves dataflow problems: over a function's blocks, and as a bare fixpoint over anything that depends on one another.

A problem is a direction, the state at the boundary, and two functions: one that joins states where paths merge, one that carries a state
over a block. States are compared with `==`; sets of registers, definitions or blocks are bits of integers. An instruction that may leave
what it writes as it was is for the transfer function to treat as a weak update: it adds, and takes nothing away.
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
    """The state before and after each block, in the order of the text no matter what the direction."""

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

    `boundary` says what comes in at a block from outside: at the entry of the function (block 0), or, backward, at its ends; None: nothing.
    Blocks are taken in reverse post-order (backward: in post-order), those that control cannot reach after the others.
    Ends if states can grow only finitely often.
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
    """Updates each node, and again whenever one that it uses has changed, until none changes.

    `update` says whether a node has changed, `users` which are to be updated then. They are taken in sweeps, in the order of `nodes`: what
    comes up before the node at hand waits for the next sweep, so that the header of a loop is not updated anew for each latch.
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
    """The join of sets of which any may be true."""
    found = 0
    for mask in masks:
        found |= mask
    return found
