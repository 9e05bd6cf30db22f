"""Use-def and def-use chains: the writes that a read may see, and the reads that may see a write.

Writes and reads are identified by their instruction. A guarded write does not hide earlier ones.
"""

from __future__ import annotations

import attrs

from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.registers.registers import Registers, registers
from ptxkit.analyses.registers.ssa import SSA, Origin, ssa
from ptxkit.frozen import frozen

ENTRY = -1
"""Represents the value of a register on function entry."""


@frozen(eq=False)
class Reaching:
    """The chains of a function. Each query walks the values concerned, so querying all of them is not free."""

    _ssa: SSA = attrs.field(repr=False)
    _registers: Registers = attrs.field(repr=False)

    def definitions(self, i: int, register: int) -> tuple[int, ...]:
        """The instructions whose write of a register instruction `i` may read, ascending; includes ENTRY if there may be none.

        Empty for unreachable instructions. Raises KeyError if it does not read the register.
        """
        return () if not self._ssa.uses[i] and self._reads(i, register) else self.sources(self._ssa.read(i, register))

    def _reads(self, i: int, register: int) -> bool:
        return register in self._registers.reads[i]

    def sources(self, value: int) -> tuple[int, ...]:
        """The instructions (or ENTRY) that may have written a value, ascending."""
        values = self._ssa.values
        made_of = closure([value], lambda at: [operand for operand in values[at].operands if operand >= 0])
        return tuple(sorted({values[at].instruction for at in made_of if values[at].origin is not Origin.PHI}))

    def uses(self, i: int, register: int) -> tuple[int, ...]:
        """The instructions that may read the value that instruction `i` writes to a register, ascending.

        Empty for unreachable instructions. Raises KeyError if it does not write the register.
        """
        if not self._ssa.definitions[i] and register in self._registers.writes[i]:
            return ()
        return self.readers(self._ssa.written(i, register))

    def readers(self, value: int) -> tuple[int, ...]:
        """The instructions that may read a value, also through joins and guarded writes, ascending."""
        readers, operand_of = self._ssa.readers, self._ssa.operand_of
        goes_into = closure([value], lambda at: operand_of.get(at, ()))
        return tuple(sorted({reader for at in goes_into for reader in readers[at]}))

    def __repr__(self) -> str:
        return "<Reaching definitions>"


@fact
def reaching(routine: Routine) -> Reaching:
    """Use-def and def-use chains, from the values of the function."""
    return Reaching(ssa(routine), registers(routine))
