"""Kernels that few threads may execute: all threads do the same, other than those that a number of the launch leaves out, or what a thread
does depends on its position in a group only."""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import bindings, has_matching, specials_of
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.parameters import leaf_of
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.memory.accesses import Access, accesses_by_instruction
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
    if len(reached(routine)) > 1 or has_matching(routine, _involves_others):
        return False
    known, numbering, by_instruction = values(routine), ssa(routine), accesses_by_instruction(routine)
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


@fact
def group(routine: Routine) -> int:
    """Number of threads in a group, at most a warp, if nothing in a kernel tells groups apart; 0 if anything may.

    Of the index of a thread, it uses only the low bits, and all of it only to find the membermask of the group. Nothing in such a kernel
    says that it is for more than one group.
    """
    if len(reached(routine)) > 1 or has_matching(routine, lambda bound: bool(bound.barrier or bound.asynchronous)):
        return 0
    known, numbering, bounds = values(routine), ssa(routine), bindings(routine)
    sizes: set[int] = set()
    done: set[int] = set()
    new = [number for i, bound in enumerate(bounds) if isinstance(bound, Bound) and _asks(bound) for number in numbering.definitions[i]]
    while new:
        number = new.pop()
        if number in done:
            continue
        done.add(number)
        new += numbering.operand_of.get(number, ())
        for i in numbering.readers[number]:
            bound = bounds[i]
            bits = next(iter(known.written(i)), None)
            if not isinstance(bound, Bound):
                return 0
            if bits is not None and bits.operator == "and" and (bits.args[1].constant or 0) + 1 in GROUPS:
                sizes.add((bits.args[1].constant or 0) + 1)
            elif not _says_members(routine, i, bound, number):
                if bound.flow or routine.instructions[i].guard is not None or bound.memory or bound.converges is not None:
                    return 0
                new += numbering.definitions[i]
    return max(sizes, default=0)


GROUPS = (2, 4, 8, 16, 32)
"""The numbers of threads that a group may have."""


def _involves_others(bound: Bound) -> bool:
    """Whether an instruction involves several threads, or returns what another thread has done."""
    return bool(bound.barrier or bound.asynchronous or bound.converges is not None or bound.form.mnemonic == "atom")


def _says_members(routine: Routine, i: int, bound: Bound, number: int) -> bool:
    """Whether an instruction takes a value as its membermask, and as nothing else."""
    members, numbering = bound.members, ssa(routine)
    if members is None or numbering.uses[i].count(number) != 1:
        return False
    node = routine.instructions[i].operands[members.path[0]]
    return any(numbering.read(i, one) == number for one in registers(routine).of(i, node))


def _asks(bound: Bound) -> bool:
    return any(not name.startswith(_COMMON) for name in specials_of(bound))


def _is_of_own_memory(routine: Routine, i: int, access: Access, number: int) -> bool:
    """Whether an access is of shared or local memory and uses a value in its address."""
    named, read = registers(routine), ssa(routine)
    where = {read.read(i, one) for node in routine.instructions[i].children if isinstance(node, Address) for one in named.of(i, node)}
    return access.space in _OWN and number in where and access.memory.access != "read-write"


__all__ = ["group", "suits_one_thread"]
