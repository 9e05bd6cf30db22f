"""Which instructions execute only after another one, by the control flow of the functions between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxkit.isa.binding import Bound
from ptxkit.machine.plans import call_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.interfaces import Program


class Order:
    """The order of instructions in the functions of a program. Answers are kept."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._after: dict[tuple[int, int], bool] = {}
        self._blocks: dict[int, int] = {}
        """The basic blocks of instructions, by `id`."""
        self._calls: dict[tuple[int, int], list[Site]] = {}
        """By instruction and function, where the function executes the instruction or calls a function that does."""

    def is_after(self, barrier: Site, site: Site) -> bool:
        """Whether an instruction can only execute after a barrier, never before it. The function of the instruction may call that of the
        barrier."""
        key = (id(barrier), id(site))
        found = self._after.get(key)
        if found is None:
            there, calls = self._block_of(site), self._calls_to(barrier, site.body)
            found = self._after[key] = bool(calls) and all(there in _only_after(site.body, self._block_of(one)) for one in calls)
        return found

    def _calls_to(self, barrier: Site, body: Body) -> list[Site]:
        """Where a function executes a barrier or calls a function that does."""
        if body is barrier.body:
            return [barrier]
        key = (id(barrier), id(body))
        if key not in self._calls:
            # a function that calls itself calls no other for the first time
            self._calls[key] = []
            entered = {one.function.name: one for one in self._program.entered}
            calls = [(one, entered.get(_callee(one))) for one in body.sites if isinstance(one.bound, Bound) and one.bound.flow == "call"]
            self._calls[key] = [one for one, of in calls if of is not None and self._calls_to(barrier, of)]
        return self._calls[key]

    def _block_of(self, site: Site) -> int:
        """The basic block of an instruction."""
        found = self._blocks.get(id(site))
        if found is None:
            i, blocks = site.number, enumerate(site.body.blocks)
            found = self._blocks[id(site)] = next(n for n, block in blocks if block.start <= i < block.end or block.last == i)
        return found


def _only_after(body: Body, block: int) -> set[int]:
    """The blocks that control can reach from a block, but from which it never comes back."""
    key = (_only_after, block)
    if key not in body.known:
        after = [one.successors for one in body.blocks]
        before: list[list[int]] = [[] for _ in after]
        for n, successors in enumerate(after):
            for successor in successors:
                if successor >= 0:
                    before[successor].append(n)
        body.known[key] = _reached(after, block) - _reached(before, block) - {block}
    return body.known[key]  # type: ignore[no-any-return]


def _reached(following: Sequence[Sequence[int]], start: int) -> set[int]:
    """The blocks that follow one, directly or not."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        new = {one for one in following[waiting.pop()] if one >= 0} - seen
        seen |= new
        waiting += new
    return seen


def _callee(site: Site) -> str:
    """The name of the function that an instruction calls, or of the register that holds its address."""
    return call_parts(site.instruction).target.text
