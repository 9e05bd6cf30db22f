"""The reads by which threads wait for others: strong reads of one address, repeated in a loop until their value ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Memory
from ptxkit.machine.plans import mask_of

if TYPE_CHECKING:
    from ptxkit.machine.blocks import BasicBlock
    from ptxkit.machine.interfaces import Body

STRONG = frozenset(("relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"))
"""The orders of strong operations (ISA 8.4)."""


def polls(body: Body) -> frozenset[int]:
    """The strong reads of a function by which threads wait, as indices of its instructions.

    Such a read is in a loop, its value decides a branch of the loop, and the loop does not change what it reads, compares or stores: what
    ends the loop is that another thread has written. A compare-and-swap that is tried again with another value is none.
    """
    known: frozenset[int] | None = body.known.get(polls)
    if known is None:
        known = body.known[polls] = _polls(body) if any(map(_is_strong_read, body.forms)) else frozenset()
    return known


def has_strong_stores(body: Body) -> bool:
    """Whether a function has strong stores, synchronous ones that are not to an mbarrier."""
    return any(one.access == "write" for bound in body.forms for one in _strong(bound))


def _is_strong_read(bound: Bound) -> bool:
    """Whether an instruction has the value that a strong read, or an update, returns."""
    return any(operand.writes for operand in bound.operands) and any(one.access != "write" for one in _strong(bound))


def _strong(bound: Bound) -> list[Memory]:
    """The strong accesses of an instruction, if it is synchronous and not one of an mbarrier."""
    return [one for one in bound.memory if one.order.lstrip(".") in STRONG and not one.is_async and not bound.barrier]


def _polls(body: Body) -> frozenset[int]:
    found: set[int] = set()
    after = [tuple([one for one in (block.fall, block.taken, *block.targets) if one >= 0]) for block in body.blocks]
    for number, block in enumerate(body.blocks):
        mine = [i for i in _instructions(block) if isinstance(bound := body.bound(i), Bound) and _is_strong_read(bound)]
        loop = _loop(number, after) if mine else frozenset()
        if loop:
            found.update(_deciding(body, loop, mine))
    return frozenset(found)


def _instructions(block: BasicBlock) -> list[int]:
    """The instructions of a block, with the one at its end."""
    return [*range(block.start, block.end), *([block.last] if block.last >= block.end else ())]


def _loop(number: int, after: Sequence[Sequence[int]]) -> frozenset[int]:
    """The blocks of all loops that contain a block: those that it reaches and that reach it; none if it is in no loop."""
    ahead = _reached(number, after)
    if number not in ahead:
        return frozenset()
    before: list[list[int]] = [[] for _ in after]
    for one, others in enumerate(after):
        for other in others:
            before[other].append(one)
    return ahead & _reached(number, before)


def _reached(start: int, after: Sequence[Sequence[int]]) -> frozenset[int]:
    """The blocks to which a path of at least one edge leads from a block."""
    found: set[int] = set()
    left = [start]
    while left:
        new = [one for one in after[left.pop()] if one not in found]
        found.update(new)
        left += new
    return frozenset(found)


def _deciding(body: Body, loop: frozenset[int], reads: list[int]) -> list[int]:
    """Those of the strong reads in a loop whose value decides one of its branches, and whose operands it does not change."""
    inside = [i for number in sorted(loop) for i in _instructions(body.blocks[number])]
    accesses = {i: body.reads_writes(i) for i in inside}
    changed = _changed(body, accesses)
    needed = 0
    for number in loop:
        if body.blocks[number].kind == "branch" and body.blocks[number].last >= 0:
            needed |= mask_of(body.guard_registers(body.blocks[number].last))
    before = 0
    while before != needed:
        before = needed
        for i, (sources, results) in accesses.items():
            if i not in reads and results & needed:
                needed |= sources
    return [i for i in reads if accesses[i][1] & needed and not accesses[i][0] & changed]


def _changed(body: Body, accesses: Mapping[int, tuple[int, int]]) -> int:
    """The registers that may have another value in each iteration of a loop, as a bit set; not those that are set to the same again."""
    changed, before = 0, -1
    for i, (_, results) in accesses.items():
        bound = body.bound(i)
        is_known = isinstance(bound, Bound) and not bound.memory and bound.flow != "call" and not body.guard_registers(i)
        if not is_known:
            changed |= results
    while before != changed:
        before = changed
        for sources, results in accesses.values():
            # a register that is computed from itself is a counter
            if sources & (changed | results):
                changed |= results
    return changed
