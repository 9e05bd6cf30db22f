"""The one engine that solves dataflow problems over a function's blocks.

A problem is a direction, the state at the boundary, and two functions: one that joins states where paths merge, one that carries a state
over a block. States are compared with `==`; sets of registers, definitions or blocks are bits of integers. An instruction that may leave
what it writes as it was is for the transfer function to treat as a weak update: it adds, and takes nothing away.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from ptxkit.analyses.cfg.graph import ControlFlow
from ptxkit.frozen import frozen

State = TypeVar("State")


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
    sources: Sequence[tuple[int, ...]] = [b.successors if backward else b.predecessors for b in flow.blocks]
    users: Sequence[tuple[int, ...]] = [b.predecessors if backward else b.successors for b in flow.blocks]
    boundaries = [boundary(block) for block in range(count)]
    rank = [0] * count
    for index, block in enumerate(order):
        rank[block] = index
    pending = bytearray(b"\1" * count)
    queue = list(range(count))
    later: list[int] = []
    while queue or later:
        if not queue:
            # the next sweep: what came up after the block at hand waits for it, so that a header is not looked at anew for each latch
            queue, later = sorted(later), []
        index = heapq.heappop(queue)
        block = order[index]
        pending[block] = 0
        incoming = [outputs[source] for source in sources[block]]
        outside = boundaries[block]
        if outside is not None:
            incoming.append(outside)
        inputs[block] = join(incoming) if incoming else bottom
        result = transfer(block, inputs[block])
        if result != outputs[block]:
            outputs[block] = result
            for user in users[block]:
                if not pending[user]:
                    pending[user] = 1
                    if rank[user] > index:
                        heapq.heappush(queue, rank[user])
                    else:
                        later.append(rank[user])
    return Solution(tuple(outputs), tuple(inputs)) if backward else Solution(tuple(inputs), tuple(outputs))


def union(masks: Iterable[int]) -> int:
    """The join of sets of which any may be true."""
    found = 0
    for mask in masks:
        found |= mask
    return found
