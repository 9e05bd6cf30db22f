"""Kernels that one thread may execute: all threads do the same, other than those that a number of the launch leaves out."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import bindings, has_such, specials_of
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import leaf_of
from ptxkit.analyses.inputs.shapes import reached
from ptxkit.analyses.memory.accesses import Access, accesses
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound
from ptxkit.syntax import Address

_COMMON = ("%ntid", "%nctaid", "%nwarpid", "%nsmid", "%cluster_nctaid", "%cluster_nctarank", "%total_smem", "%dynamic_smem", "%aggr_smem")
"""Special registers that have the same value in all threads."""
_OWN = (".shared", ".local")


@fact
def suits_one_thread(routine: Routine) -> bool:
    """Whether nothing in a kernel depends on the thread or CTA, except branches that compare its index with a scalar parameter.

    No address in global memory, no stored value and no other branch depends on it, and no instruction involves several threads. Nothing
    in such a kernel says that it is for more than one thread.
    """
    if len(reached(routine)) > 1 or has_such(routine, _involves_others):
        return False
    known, numbering, by_instruction = values(routine), ssa(routine), _accesses(routine)
    bounds = bindings(routine)
    who: set[int] = set()
    new = [number for i, bound in enumerate(bounds) if isinstance(bound, Bound) and _asks(bound) for number in numbering.definitions[i]]
    while new:
        number = new.pop()
        if number in who:
            continue
        who.add(number)
        new += numbering.operand_of.get(number, ())
        for i in numbering.readers[number]:
            bound = bounds[i]
            if not isinstance(bound, Bound):
                return False
            new += numbering.definitions[i]
            if routine.instructions[i].guard is not None and numbering.uses[i][0] == number:
                guard = known.guard(i)
                if guard is None or not any(leaf_of(leaf) for leaf in guard.leaves()):
                    return False
            elif bound.flow or any(not _is_of_own_memory(routine, i, one, number) for one in by_instruction.get(i, ())):
                return False
    return True


def _involves_others(bound: Bound) -> bool:
    """Whether an instruction involves several threads, or returns what another thread has done."""
    return bool(bound.barrier or bound.asynchronous or bound.converges is not None or bound.form.mnemonic == "atom")


def _asks(bound: Bound) -> bool:
    return any(not name.startswith(_COMMON) for name in specials_of(bound))


def _accesses(routine: Routine) -> dict[int, list[Access]]:
    found: dict[int, list[Access]] = {}
    for access in accesses(routine):
        found.setdefault(access.instruction, []).append(access)
    return found


def _is_of_own_memory(routine: Routine, i: int, access: Access, number: int) -> bool:
    """Whether an access is of shared or local memory and uses a value in its address."""
    named, read = registers(routine), ssa(routine)
    where = {read.read(i, one) for node in routine.instructions[i].children if isinstance(node, Address) for one in named.of(i, node)}
    return access.space in _OWN and number in where and access.memory.access != "read-write"


__all__ = ["suits_one_thread"]
