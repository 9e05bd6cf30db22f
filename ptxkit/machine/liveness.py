"""Which registers are live where: the accesses of all instructions as arrays, in place of a set for each instruction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import attrs
import numpy as np

Array = np.ndarray[Any, Any]

READS, WRITES, VOTE = 1, 2, 4
"""What an access does, as bits; from `VOTE` on stands the number of the dtype that it is of, 0 for none that counts."""

_NUMBERS = 32
"""The numbers of dtypes are below."""

_BY_NUMBER: dict[int, np.dtype[Any]] = {dtype.num: dtype for dtype in map(np.dtype, ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"))}
_SIZES = np.array([_BY_NUMBER[n].itemsize if n in _BY_NUMBER else 0 for n in range(_NUMBERS)])

_IS_INTEGER = np.array([n in _BY_NUMBER and _BY_NUMBER[n].kind in "ui" for n in range(_NUMBERS)])


@attrs.frozen(eq=False)
class Accesses:
    """Accesses of registers: of each the instruction, the register, and what it does (`READS` and so on)."""

    instruction: Array
    register: Array
    role: Array

    @classmethod
    def of(cls, numbers: list[tuple[int, ...]], roles: list[tuple[int, ...]], others: list[tuple[int, int, int]]) -> Accesses:
        """From the registers of all parts of all instructions, what each instruction does with its parts, and further accesses."""
        parts = np.fromiter(map(len, roles), np.int64, len(roles))
        widths = np.fromiter(map(len, numbers), np.int64, len(numbers))
        register = np.fromiter(chain.from_iterable(numbers), np.int64)
        role = np.repeat(np.fromiter(chain.from_iterable(roles), np.int64, len(numbers)), widths)
        instruction = np.repeat(np.repeat(np.arange(len(roles)), parts), widths)
        used = np.flatnonzero(role)
        more = np.array(others, np.int64).reshape(-1, 3)
        return cls(
            np.concatenate([instruction[used], more[:, 0]]),
            np.concatenate([register[used], more[:, 1]]),
            np.concatenate([role[used], more[:, 2]]),
        )

    def preferred(self, dtypes: list[np.dtype[Any]]) -> Iterator[tuple[int, np.dtype[Any]]]:
        """The integer registers that most instructions use as another dtype of their size: then few have to reinterpret them."""
        own = np.array([dtype.num for dtype in dtypes])
        sizes = np.where(_IS_INTEGER[own], _SIZES[own], -1)
        vote = self.role // VOTE
        counts = np.bincount(self.register * _NUMBERS + vote, minlength=len(dtypes) * _NUMBERS).reshape(-1, _NUMBERS)
        counts[sizes[:, None] != _SIZES] = 0
        most = counts.argmax(1)
        changed = np.flatnonzero(counts.any(1) & (most != own))
        yield from zip(changed.tolist(), map(_BY_NUMBER.__getitem__, most[changed].tolist()), strict=True)


class Liveness:
    """The registers that are live at the beginning (`live`) and the end (`live_out`) of each block, as bits."""

    def __init__(self, accesses: Accesses, of_instruction: Array, blocks: int, registers: int) -> None:
        """`of_instruction` has the block of each instruction, -1 for one that is never executed."""
        here = of_instruction[accesses.instruction]
        chosen = np.flatnonzero(here >= 0)
        self.blocks, self.registers = blocks, registers
        self.place = here[chosen] * registers + accesses.register[chosen]
        self.instruction, self.role = accesses.instruction[chosen], accesses.role[chosen]
        self.span = 2 * len(of_instruction) + 2
        self.late = np.empty(0, np.int64)
        self.live: list[int] = []
        self.live_out: list[int] = []

    def reads_at_end(self, given: Iterable[tuple[int, int]]) -> None:
        """Registers that are read after all instructions of a block."""
        self.late = np.array([block * self.registers + register for block, register in given], np.int64)

    def solve(self, successors: list[list[int]], always: int) -> None:
        """Finds the registers that a later block may read before it surely writes them; `always` are live everywhere."""
        reading = np.flatnonzero(self.role & 1)
        writing = np.flatnonzero(self.role & 2)
        # in the order of place, then of time; an instruction reads before it writes
        moments = np.concatenate(
            [
                self.place[reading] * self.span + 2 * self.instruction[reading],
                self.place[writing] * self.span + 2 * self.instruction[writing] + 1,
                self.late * self.span + self.span - 2,
            ]
        )
        moments.sort()
        places, times = np.divmod(moments, self.span)
        is_first = np.diff(places, prepend=-1) != 0
        used = places[is_first & (times & 1 == 0)]
        written = np.unique(places[times & 1 == 1])
        # most registers live and die within one block
        crossing = np.zeros(self.registers, bool)
        crossing[used % self.registers] = True
        gen = [mask | always for mask in self._masks(used)]
        kept = [~mask for mask in self._masks(written[crossing[written % self.registers]])]
        live = [0] * self.blocks
        out = [0] * self.blocks
        changed = True
        while changed:
            changed = False
            for number in range(self.blocks - 1, -1, -1):
                after = 0
                for n in successors[number]:
                    after |= live[n]
                out[number] = after
                new = gen[number] | (after & kept[number])
                if new != live[number]:
                    live[number] = new
                    changed = True
        self.live, self.live_out = live, out

    def of_instructions(self, instructions: list[int]) -> list[int]:
        """Of each block the registers that one of its instructions reads, as bits; none of instruction -1."""
        at = np.array(instructions, np.int64)
        chosen = (self.role & READS).astype(bool) & (at[self.place // self.registers] == self.instruction)
        return self._masks(np.unique(self.place[chosen]))

    def _masks(self, places: Array) -> list[int]:
        """The registers at places, which ascend, as bits by block."""
        block, register = np.divmod(places, self.registers)
        ends = np.searchsorted(block, np.arange(self.blocks), "right").tolist()
        numbers = register.tolist()
        found, start = [], 0
        for end in ends:
            mask = 0
            for number in numbers[start:end]:
                mask |= 1 << number
            found.append(mask)
            start = end
        return found
