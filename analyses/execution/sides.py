"""Which sides of conditional branches a run takes."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxkit.machine.monitoring import Monitor
from ptxkit.syntax import Path

if TYPE_CHECKING:
    from ptxkit.machine.blocks import BasicBlock
    from ptxkit.machine.code import Body
    from ptxkit.machine.groups import Lanes

_NOT_TAKEN, _TAKEN, _BOTH = 1, 2, 3


class Side(NamedTuple):
    """A side of a conditional branch: where it leads if it is taken, or what follows it."""

    branch: Path
    is_taken: bool

    @property
    def other(self) -> Side:
        """The other side of the branch."""
        return Side(self.branch, not self.is_taken)


Reached = Path | Side
"""What a launch may reach: an instruction, or a side of a branch."""


class Sides(Monitor):
    """Records which sides of branches some thread takes."""

    def __init__(self) -> None:
        self._outcomes: dict[BasicBlock, int] = {}

    def branch(self, lanes: Lanes, body: Body, block: BasicBlock, taken: Any) -> None:
        known = self._outcomes.get(block, 0)
        if known != _BOTH:
            self._outcomes[block] = known | (_TAKEN if np.any(taken) else 0) | (0 if np.all(taken) else _NOT_TAKEN)

    @property
    def taken(self) -> frozenset[Side]:
        """The sides that were taken."""
        return frozenset(
            [
                Side(block.body.sites[_index(block)].path, bit == _TAKEN)
                for block, outcomes in self._outcomes.items()
                for bit in (_NOT_TAKEN, _TAKEN)
                if outcomes & bit
            ]
        )


def _index(block: BasicBlock) -> int:
    """The instruction whose guard decides at the end of a block: a branch, or one that has the next block for itself."""
    return block.last if block.last >= 0 else block.end


def untaken(taken: Set[Side]) -> set[Side]:
    """The other sides of branches that always took the same side."""
    return {side.other for side in taken} - set(taken)
