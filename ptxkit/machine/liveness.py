"""Which registers are live where, and the dtype as which each is kept: worked out for a function when enough of it has executed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from ptxkit.machine.blocks import BasicBlock, Chain, chains
from ptxkit.machine.interfaces import Body
from ptxkit.machine.plans import STACK, TOP, Plan, bits
from ptxkit.syntax import Guard, Node

MANY = 250
"""Functions with fewer instructions have liveness computed as soon as one of them is executed."""

MANY_ASK = 4
"""Liveness is computed once the number of requests exceeds the number of blocks divided by this."""

MOST_USERS = 8
"""Maximum number of chains that vote on the dtype of a register."""

Row = tuple[tuple[Node, ...], Plan, dict[int, tuple[int, ...]]]
"""The parts of an instruction, where its form has registers, and the registers that each part names, by `id`."""


class Liveness:
    """The live registers of a function.

    Computing them takes as long as everything else about a function together. A long function does without as long as only a few blocks
    are executed by few threads; these keep all registers that were written.
    """

    def __init__(self, body: Body, keeps_dead: bool, may_defer: bool) -> None:
        """With `keeps_dead`, registers keep their values after their last use. With `may_defer`, a long function may do without
        liveness."""
        self.body = body
        self.keeps_dead = keeps_dead
        formals = [number for _, number in body.formals]
        self.written: set[int] = {STACK, TOP, *formals}
        """The registers that compiled blocks and callers write."""
        self.crossing: list[int] = []
        """The registers that some chain reads before it writes them."""
        self._chains: list[Chain] = []
        self._users: dict[int, list[Chain]] = {}
        """For each register, the chains that read it before they write it."""
        self._settled: set[int] = set()
        """The registers whose dtype is fixed."""
        self._is_settled = False
        self._asked = 0
        self._may_defer = may_defer and len(body.instructions) >= MANY

    def is_provisional(self) -> bool:
        """Whether liveness is unknown and not worth computing, since few blocks have requested it."""
        if self._is_settled:
            return False
        self._asked += 1
        if not self._may_defer or self._asked * MANY_ASK > len(self.body.blocks):
            self.settle()
        return not self._is_settled

    def settle(self) -> None:
        """Computes liveness if it has not been computed."""
        if self._is_settled:
            return
        self._is_settled = True
        self._chains = chains(self.body.blocks)
        rows = self.body.rows()
        written = [self._scan(one, rows) for one in self._chains]
        # most registers are only live within one chain
        self.crossing = sorted(set().union(*[one.reads for one in self._chains]))
        _solve(self._chains, written, self.crossing)
        for one in self._chains:
            for number in one.reads:
                self._users.setdefault(number, []).append(one)
        # registers read before they are written, written elsewhere, or used by compiled code keep their declared dtype
        self._settled.update([number for _, number in self.body.formals])
        if self._chains:
            self._settled.update(self._live_at(self._chains[0]))

    def _scan(self, one: Chain, rows: list[Row]) -> set[int]:
        """Collects what a chain reads before it writes it, in `Chain.reads`; returns what it writes."""
        accesses = self.body.accesses
        reads = one.reads
        writes: set[int] = set()
        for block in reversed(one.blocks):
            if block.last >= 0 and block.kind != "branch":
                more, less = accesses(block.last)
                reads.difference_update(less)
                writes.update(less)
                reads.update(more)
            if block.guard >= 0:
                reads.add(block.guard)
            for i in range(block.end - 1, block.start - 1, -1):
                children, plan, of = rows[i]
                shape = plan.shape
                if type(children[0]) is Guard:
                    # inactive lanes keep their registers
                    reads.update(*[of[id(child)] for child in children if id(child) in of])
                    if not shape:
                        more, less = accesses(i)
                        reads.update(more, less)
                elif shape == "reads":
                    reads.update(*[of[id(child)] for child in children[1:]])
                elif shape:
                    result = of[id(children[1])]
                    reads.difference_update(result)
                    writes.update(result)
                    reads.update(*[of[id(child)] for child in children[2:]])
                else:
                    more, less = accesses(i)
                    reads.difference_update(less)
                    writes.update(less)
                    reads.update(more)
        reads.difference_update((STACK, TOP))
        return writes

    def note(self, block: BasicBlock) -> None:
        """Called when a block has been compiled before liveness is known: what it writes is kept, and registers that it names keep their
        declared dtype."""
        if self._is_settled:
            return
        for i in block.instructions:
            reads, writes = self.body.accesses(i)
            self.written.update(writes)
            self._settled.update(reads, writes, self.body.guard_registers(i))
        if block.guard >= 0:
            self._settled.add(block.guard)

    def _live_at(self, one: Chain) -> set[int]:
        """The registers that are live at the start of a chain."""
        crossing = self.crossing
        return {STACK, TOP, *[crossing[place] for place in bits(one.live)]}

    def work_out(self, asked: BasicBlock) -> None:
        """Computes liveness within the chain of a block, and fixes the dtypes of the registers that it names."""
        self.settle()
        one = asked.chain
        assert one is not None
        accesses, instructions = self.body.accesses, self.body.instructions
        live = {STACK, TOP}.union(*[self._live_at(self._chains[after]) for after in one.successors])
        named: set[int] = set()
        for block in reversed(one.blocks):
            out = set(live)
            if block.last >= 0 and block.kind != "branch":
                reads, writes = accesses(block.last)
                named.update(reads, writes)
                out.update(reads)
                live.difference_update(writes)
                live.update(reads)
            if block.guard >= 0:
                live.add(block.guard)
            for i in range(block.end - 1, block.start - 1, -1):
                reads, writes = accesses(i)
                named.update(reads, writes)
                if type(instructions[i].children[0]) is Guard:
                    # inactive lanes keep their registers
                    live.update(reads, writes, self.body.guard_registers(i))
                    continue
                live.difference_update(writes)
                live.update(reads)
            live.update((STACK, TOP))
            block.worked_out(set(live), out)
        self._settle(one, named)

    def _settle(self, one: Chain, named: set[int]) -> None:
        """Fixes dtypes: a register has the dtype as which most nearby instructions use it, so that few have to reinterpret it."""
        dtypes = self.body.dtypes
        for number in named - self._settled:
            own = dtypes[number]
            users = [user for user in self._users.get(number, ())[:MOST_USERS] if user is not one]
            counts: Counter[np.dtype[Any]] = Counter()
            for user in (one, *users) if own.kind in "ui" else ():
                counts.update([dtype for dtype in self._votes(user).get(number, ()) if dtype.itemsize == own.itemsize])
            if counts:
                dtypes[number] = counts.most_common(1)[0][0]
        self._settled |= named

    def _votes(self, one: Chain) -> dict[int, list[np.dtype[Any]]]:
        """For each register, the dtypes as which the instructions of a chain use it."""
        if one.votes is None:
            votes: dict[np.dtype[Any], list[int]] = {}
            for block in one.blocks:
                for i in block.instructions:
                    self.body.accesses(i, votes)
            one.votes = {}
            for dtype, numbers in votes.items():
                for number in numbers if dtype.kind in "uif" else ():
                    one.votes.setdefault(number, []).append(dtype)
        return one.votes


def _solve(chains: list[Chain], written: list[set[int]], crossing: list[int]) -> None:
    """Sets `Chain.live`: the backward dataflow problem over chains, with registers as bits in the order of `crossing`."""
    bit = {number: 1 << place for place, number in enumerate(crossing)}
    gen = [sum([bit[number] for number in one.reads]) for one in chains]
    kept = [~sum([bit[number] for number in writes & bit.keys()]) for writes in written]
    live = gen[:]
    before: list[list[int]] = [[] for _ in chains]
    for number, one in enumerate(chains):
        for after in one.successors:
            before[after].append(number)
    waiting = set(range(len(chains)))
    while waiting:
        changed: set[int] = set()
        for number in sorted(waiting, reverse=True):
            out = 0
            for after in chains[number].successors:
                out |= live[after]
            new = gen[number] | (out & kept[number])
            if new != live[number]:
                live[number] = new
                changed.update(before[number])
        waiting = changed
    for one, mask in zip(chains, live, strict=True):
        one.live = mask
