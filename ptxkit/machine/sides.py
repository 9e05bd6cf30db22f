"""Branches whose sides are short and only compute: all lanes execute both sides, and each keeps its own result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import Body
from ptxkit.machine.groups import Group

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Scheduler

SHORT = 16
"""Maximum number of instructions of a side."""


def may_execute_both(scheduler: Scheduler, block: BasicBlock) -> bool:
    """Whether a group may execute both sides of a branch as a whole, since no monitor counts blocks or steps."""
    return block.both is not False and not scheduler.counting and not scheduler.program.is_stepped


def execute_both(scheduler: Scheduler, group: Group, block: BasicBlock, value: Any, count: int) -> int:
    """If the sides of a branch are short and only compute, all lanes compute both and select their own result, which is cheaper than
    splitting the group.

    Returns the block where the sides merge, or -2 if the sides do not qualify.
    """
    both = block.both
    if both is None:
        both = block.both = _sides(scheduler, group.body, block)
        if both is False:
            return -2
    taken, fall, meet, written = both
    lanes, registers = group.lanes, group.held
    if group.split is not None:
        group.take(written)
        for side in (taken, fall):
            group.take(side.run.loads if side is not None else ())
    one = other = registers
    if taken is not None:
        one = list(registers)
        taken.run(one, lanes)
        scheduler.executed += count * (taken.end - taken.start)
    if fall is not None:
        other = list(registers)
        fall.run(other, lanes)
        scheduler.executed += (lanes.count - count) * (fall.end - fall.start)
    for i in written:
        if one[i] is not other[i]:
            registers[i] = np.where(value, one[i], other[i])
    return int(meet)


def _sides(scheduler: Scheduler, body: Body, block: BasicBlock) -> Any:
    """The sides of a branch that only compute, the block where they merge, and the registers needed there; False if the branch does
    not qualify."""
    blocks = body.blocks
    if block.taken < 0 or block.fall < 0:
        return False
    taken, fall = blocks[block.taken], blocks[block.fall]
    if taken.kind == "fall" and taken.fall == block.fall:
        pair: tuple[BasicBlock | None, BasicBlock | None] = (taken, None)
        meet = block.fall
    elif fall.kind == "fall" and fall.fall == block.taken:
        pair, meet = (None, fall), block.taken
    elif taken.kind == fall.kind == "fall" and taken.fall == fall.fall >= 0:
        pair, meet = (taken, fall), taken.fall
    else:
        return False
    written: set[int] = set()
    for side in pair:
        if side is None:
            continue
        if side.end - side.start > SHORT:
            return False
        try:
            run = side.run or scheduler.compile(body, side)
        except Exception:
            return False
        if not run.is_pure:
            return False
        written.update(run.written)
    live = blocks[meet].live
    kept = [i for i in written if i in live]
    if any(body.dtypes[i].kind == "V" for i in kept):
        return False
    return (*pair, meet, kept)
