"""Compiles basic blocks to Python, one line for each instruction, which calls the instruction's semantics.

The source contains only positions (`v3 = k1(v0, c2)`); names and numbers of the PTX text are objects in its namespace, so that similar
blocks share a code object. Within a block a register has the dtype in which it was computed, at block boundaries its declared dtype.
"""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.blocks import BasicBlock
from ptxkit.machine.code import Body, Site
from ptxkit.machine.fault import Stop
from ptxkit.machine.monitoring import stepped
from ptxkit.machine.operation import Semantics
from ptxkit.machine.plans import mask_of
from ptxkit.machine.writing import BOOL, Writer

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Program


@define(eq=False)
class Waiting:
    """An instruction with a block of its own, because lanes may wait at it."""

    semantics: Semantics
    arguments: Any
    """`arguments(R, L)` gives the arguments of `run`."""
    put: Any
    """`put(R, L, result)` stores the result."""
    level: str
    """`warp`, `warpgroup` or empty: the group of threads that must execute it together."""
    members: int
    """Index of the argument with the member mask; -1 if there is none."""
    lanes: bool
    held: tuple[int, int] | None
    """The registers of operations in flight that it reads and writes, if monitors are notified of it and it starts none itself."""


class Compiler:
    """Compiles the blocks of one function."""

    def __init__(self, program: Program, body: Body) -> None:
        self.program = program
        self.body = body

    def block(self, block: BasicBlock) -> Any:
        """`run(R, L)` executes the straight-line part of the block and returns the value of the branch condition, or None."""
        if block.last >= 0:
            self._bound(block.last)
        # this also fixes the dtypes of registers
        live_out = block.live_out
        writer = Writer(self.program, self.body)
        if not self.program.is_stepped:
            writer.loose = self._loose(block, live_out)
            for i in range(block.start, block.end):
                writer.one(i)
        run = writer.finish(live_out, self._decision(writer, block))
        if block.kind == "sync":
            block.wait = self.waiting(block.last)
        if self.program.is_stepped:
            run = self._stepped(block, run)
        block.run = run
        self.body.liveness.note(block)
        return run

    def _bound(self, i: int) -> Bound:
        """The form of an instruction. Raises `Stop` if it has none."""
        bound = self.body.bound(i)
        if not isinstance(bound, Bound):
            raise Stop("unsupported", bound.message)
        return bound

    def _loose(self, block: BasicBlock, live_out: Set[int] | None) -> set[int]:
        """The instructions of a block for which it cannot be observed which NaN they produce."""
        body, program = self.body, self.program
        loose: set[int] = set()
        if program.is_watched:
            return loose
        able = [False] * (block.end - block.start)
        for i in range(block.start, block.end):
            site = body.sites[i]
            if isinstance(site.bound, Bound) and site.bound.type == ".f32" and site.instruction.guard is None:
                able[i - block.start] = "any nan" in program.known(site).semantics.variants
        if not any(able):
            return loose
        seen = -1 if live_out is None else mask_of(live_out)
        for i in range(block.end - 1, block.start - 1, -1):
            reads, writes = body.reads_writes(i)
            if able[i - block.start]:
                if not writes & seen:
                    loose.add(i)
                seen &= ~writes
            elif body.sites[i].instruction.guard is None:
                seen = (seen & ~writes) | reads
            else:
                seen |= reads | writes
        return loose

    def _decision(self, writer: Writer, block: BasicBlock) -> str:
        """Emits the evaluation of the branch condition at the end of a block. Returns the expression; empty if there is none."""
        result = ""
        if block.guard >= 0:
            value = writer.read(block.guard, BOOL)
            result = f"~{value}" if block.negated else value
            if self.program.is_watched:
                writer.claimed_uniform(block.last, result)
            if self.program.undefined is not None:
                writer.decided(block)
        elif block.kind == "indexed":
            site = self.body.sites[block.last]
            assert isinstance(site.bound, Bound)
            result = writer.value(site, site.instruction.operands[0], np.dtype(np.uint32))
        return result

    def _stepped(self, block: BasicBlock, end: Any) -> Any:
        """Compiles a block instruction by instruction, each with its event; `end` evaluates the branch condition. `run.at` is the
        current instruction."""
        body = self.body
        pieces = []
        for i in range(block.start, block.end):
            writer = Writer(self.program, body)
            writer.one(i)
            pieces.append((i, writer.finish(None, "")))
        last = block.last
        if last < 0 and block.kind == "branch":
            # a branch around an instruction with a guard and a block of its own: emit its event here, for the lanes that skip it too
            last = body.blocks[block.taken].last
        elif last >= 0 and block.kind != "branch" and body.sites[last].instruction.guard is not None:
            last = -1

        def run(registers: list[Any], lanes: Any) -> Any:
            for i, piece in pieces:
                run.at = i  # type: ignore[attr-defined]
                stepped(lanes, body, i, registers)
                piece(registers, lanes)
            if last >= 0:
                run.at = last  # type: ignore[attr-defined]
                stepped(lanes, body, last, registers)
            return end(registers, lanes)

        run.at = -1  # type: ignore[attr-defined]
        run.places = {}  # type: ignore[attr-defined]
        # an event shows all registers
        run.loads = range(len(body.dtypes))  # type: ignore[attr-defined]
        return run

    def first_failing(self, block: BasicBlock, otherwise: int) -> int:
        """The first instruction of a block that cannot be compiled."""
        for i in [*range(block.start, block.end), *([block.last] if block.kind == "sync" else [])]:
            try:
                Writer(self.program, self.body).instruction(i)
            except Exception:
                return i  # type: ignore[no-any-return]
        return otherwise

    def waiting(self, i: int) -> Waiting:
        """The compiled form of an instruction at which lanes may wait."""
        site = self.body.sites[i]
        bound = site.bound
        assert isinstance(bound, Bound)
        writer = Writer(self.program, self.body)
        known, arguments = writer.operation(i)
        names = known.names
        semantics = known.semantics
        values = [f"({', '.join(arguments)}{',' if arguments else ''})"]
        fetch = writer.finish(frozenset(), values[0])
        if self.program.undefined is not None:
            self.program.undefined.plan(site, names)
        writer = Writer(self.program, self.body)
        writer.landing(i, known, "X")
        put = writer.finish(None, "", "R, L, X")
        converges = bound.converges
        level = converges.level if converges is not None and converges.level in ("warp", "warpgroup") and not bound.barrier else ""
        members = bound.members
        if members is not None and members.reads:
            level = "warp"
        mask = names.index(members.name) if members is not None and members.name in names else -1
        return Waiting(semantics, fetch, put, level, mask, semantics.lanes, self._held(site))

    def _held(self, site: Site) -> tuple[int, int] | None:
        held = self.body.held if self.program.is_watched else 0
        reads, writes = self.body.reads_writes(site.number) if held else (0, 0)
        return (reads & held, writes & held) if (reads | writes) & held and not any(self.body.holds(site)) else None
