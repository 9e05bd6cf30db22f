"""A suspended launch: the location of each warp's threads in the chosen CTA, with their registers and calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.debugger.controller import WARP, Controller
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.debugger.program import Statement
    from ptxkit.machine.blocks import BasicBlock
    from ptxkit.machine.code import Body
    from ptxkit.machine.groups import Frame
    from ptxkit.machine.interfaces import Launch, Program, Residents


@frozen(eq=False)
class Part:
    """Converged threads of a warp: `threads` are their indices among the resident threads, `positions` those among `lanes`."""

    lanes: Any
    """All threads that are converged with them, of other warps too."""
    positions: Any
    body: Body
    i: int
    registers: list[Any]
    frame: Frame | None
    how: str
    """`here`: they execute the next statement; `ready`; `waits` at a barrier or for an operation in flight; `warp`: for others of their
    warp."""

    @property
    def threads(self) -> Any:
        return self.lanes.place[self.positions]

    @property
    def chosen(self) -> Any:
        """The threads as separate lanes."""
        return self.lanes.at(self.positions)


@frozen(eq=False)
class Call:
    """A function that threads of a warp are in: the current one, or one of its callers."""

    lanes: Any
    """The threads, as lanes."""
    body: Body
    i: int
    registers: list[Any]
    """Their registers, by number."""
    depth: int
    label: str = ""


class State:
    """The state of a stopped controller."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller

    @property
    def launch(self) -> Launch:
        return self.controller.launch

    @property
    def residents(self) -> Residents:
        return self.controller.residents

    @property
    def program(self) -> Program:
        return self.launch.program

    @property
    def cta(self) -> tuple[int, int, int]:
        """The index of the chosen CTA."""
        return self.controller.index

    @property
    def is_there(self) -> bool:
        """Whether the chosen CTA is resident, so that it can be inspected."""
        if self.controller.is_over or self.residents is None:
            return False
        return bool(0 <= self.controller.cta - self.residents.first_cta < self.residents.ctas)

    @property
    def warps(self) -> list[int]:
        """The warps of the chosen CTA with threads that have not exited."""
        if not self.is_there:
            return []
        base = self.controller.base
        alive = np.flatnonzero(self.residents.alive[base : base + self.residents.threads])
        return np.unique(alive // WARP).tolist()  # type: ignore[no-any-return]

    def parts(self, warp: int) -> list[Part]:
        """The threads of a warp that have not exited, by location: first those that execute the next statement, then those that can run,
        then those that wait."""
        if not self.is_there:
            return []
        first = self.controller.base + warp * WARP
        end = min(first + WARP, self.controller.base + self.residents.threads)
        found = []
        left = {thread for thread in range(first, end) if self.residents.alive[thread]}
        for lanes, body, i, registers, frame, how in self._groups():
            positions = np.flatnonzero((lanes.place >= first) & (lanes.place < end))
            positions = np.array([one for one in positions.tolist() if int(lanes.place[one]) in left], np.int64)
            if len(positions):
                left.difference_update(lanes.place[positions].tolist())
                found.append(Part(lanes, positions, body, i, registers, frame, how))
        return sorted(found, key=lambda part: ("here", "ready", "warp", "waits").index(part.how))

    def _groups(self) -> Iterator[tuple[Any, Body, int, list[Any], Frame | None, str]]:
        scheduler = self.launch.scheduler
        for groups in list(scheduler.ready.values()):
            for group in groups:
                yield group.lanes, group.body, _next(group.body, group.body.blocks[group.block]), group.registers, group.frame, "ready"
        for group in list(scheduler.parked.values()):
            yield group.lanes, group.body, group.body.blocks[group.block].last, group.registers, group.frame, "warp"
        for one in list(scheduler.blocked):
            group = one.group
            yield group.lanes, group.body, one.block.last, group.registers, group.frame, "waits"
        at = self.controller
        if at.body is not None and at.lanes is not None and scheduler.current is not None:
            yield at.lanes, at.body, at.i, at.held, scheduler.current.frame, "here"

    def calls(self, part: Part) -> list[Call]:
        """The functions that threads are in, from the innermost to the kernel."""
        lanes = part.chosen
        frame = part.frame
        depth = frame.depth if frame is not None else 0
        found = [Call(lanes, part.body, part.i, _taken(part.registers, part.positions, part.lanes.count), depth)]
        while frame is not None:
            positions = np.searchsorted(frame.lanes.place, lanes.place)
            caller = frame.body.blocks[frame.path[-2]]
            registers = _taken(frame.registers, positions, frame.lanes.count)
            found.append(Call(lanes, frame.body, caller.last, registers, frame.depth - 1))
            frame = frame.parent
        return found

    def statement(self, body: Body, i: int) -> Statement:
        """The text of an instruction."""
        return self.controller.text.by_path[body.sites[i].path]

    def threads_of(self, warp: int) -> str:
        """The threads of a warp, as text: `threads 32 to 63`."""
        first = warp * WARP
        return f"threads {first} to {min(first + WARP, self.residents.threads) - 1}"

    def how(self, warp: int) -> str:
        """What a warp does, as text."""
        parts = self.parts(warp)
        if not parts:
            return "has exited"
        texts = []
        for part in parts:
            what = {"here": "at", "ready": "before", "waits": "waits at", "warp": "waits for others at"}[part.how]
            line = self.statement(part.body, part.i).line
            count = f"{len(part.positions)} of its threads " if len(parts) > 1 else ""
            texts.append(f"{count}{what} line {line}")
        return "; ".join(texts)


def _next(body: Body, block: BasicBlock) -> int:
    """The instruction that a group at the start of a block executes next."""
    if block.start < block.end:
        return block.start
    if block.last >= 0:
        return block.last
    if block.kind == "branch" and block.taken >= 0:
        return _next(body, body.blocks[block.taken])
    return _next(body, body.blocks[block.fall]) if block.fall >= 0 else len(body.sites) - 1


def _taken(registers: list[Any], positions: Any, count: int) -> list[Any]:
    return [x.take(positions) if getattr(x, "ndim", 0) and len(x) == count else x for x in registers]
