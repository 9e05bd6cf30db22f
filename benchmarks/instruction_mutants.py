"""Mistakes of hand-written kernels that belong to no protocol: one instruction is deleted or changed (`mutants.py --protocol mistakes`).

`MISTAKES` has for each its name and where a kernel can have it: the instructions, with what stands there instead. Waits, commits, mbarriers
and fences of proxies have tables of their own (`mutants.py`, `protocol_mutants.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.isa.binding import Bound
from ptxkit.syntax import constant_value

Site = tuple[int, str]
"""An instruction, and what stands there instead."""
WARP = 32
LANE_31 = "0x80000000"
ELSE = {"ge": "gt", "gt": "ge", "lt": "le", "le": "lt", "hs": "hi", "hi": "hs", "lo": "ls", "ls": "lo"}
"""Comparisons with the one that differs for equal operands."""


class Mistake(NamedTuple):
    """A kind of mistake."""

    name: str
    sites: Callable[[Routine], Iterator[Site]]


def statement(routine: Routine, i: int, opcode: str = "", **operands: str) -> str:
    """An instruction with another opcode, or with other operands by their names in the instruction table."""
    instruction, bound = routine.instructions[i], bindings(routine)[i]
    texts = [one.text.strip() for one in instruction.operands]
    for name, text in operands.items():
        operand = bound.operand(name) if isinstance(bound, Bound) else None
        assert operand is not None
        texts[operand.path[0]] = text
    guard = f"{instruction.guard.text.strip()} " if instruction.guard is not None else ""
    return f"{guard}{opcode or instruction.opcode.text} {', '.join(texts)};"


def constant(routine: Routine, i: int, name: str) -> int | None:
    """The number that is written as an operand; None if there is no such operand, or if it is not a number."""
    bound = bindings(routine)[i]
    operand = bound.operand(name) if isinstance(bound, Bound) else None
    value = constant_value(routine.instructions[i].operands[operand.path[0]]) if operand is not None else None
    return value if isinstance(value, int) else None


def reachable(routine: Routine, opcodes: str) -> Iterator[int]:
    """The reachable instructions whose opcode matches a regular expression."""
    flow = control_flow(routine)
    for i, instruction in enumerate(routine.instructions):
        if flow.block_of[i] in flow.reachable and re.match(opcodes, instruction.opcode.text):
            yield i


def without(opcodes: str, is_in_loop: bool | None = None) -> Callable[[Routine], Iterator[Site]]:
    """Deletes an instruction, one in a loop or one outside of all loops if that is said."""

    def sites(routine: Routine) -> Iterator[Site]:
        for i in reachable(routine, opcodes):
            if is_in_loop is None or comes_to(routine, i, i) is is_in_loop:
                yield i, ""

    return sites


def relaxed(routine: Routine) -> Iterator[Site]:
    """Takes the ordering from an access."""
    for i in reachable(routine, r"(ld|st|atom|red)\b.*\.(release|acquire|acq_rel)\b"):
        yield i, statement(routine, i, re.sub(r"\.(release|acquire|acq_rel)\b", ".relaxed", routine.instructions[i].opcode.text))


def counts(routine: Routine) -> Iterator[Site]:
    """Lets a barrier expect another warp."""
    for i in reachable(routine, r"bar(rier)?\.(cta\.)?(sync|arrive)"):
        count = constant(routine, i, "b")
        if count is not None:
            yield i, statement(routine, i, b=str(count + WARP))


def masks(routine: Routine) -> Iterator[Site]:
    """Leaves lane 31 out of the lanes that execute an instruction together."""
    for i, bound in enumerate(bindings(routine)):
        mask = bound.operand("membermask") if isinstance(bound, Bound) else None
        if mask is None:
            continue
        before = routine.instructions[i].operands[mask.path[0]].text.strip()
        changed = statement(routine, i, membermask="%mutant")
        yield i, f"{{ .reg .b32 %mutant; and.b32 %mutant, {before}, ~{LANE_31}; {changed} }}"


def clamps(routine: Routine) -> Iterator[Site]:
    """Lets lanes of a shuffle read from half a warp only."""
    for i in reachable(routine, r"shfl\.sync\.(idx|down|bfly)"):
        if constant(routine, i, "c") == WARP - 1:
            yield i, statement(routine, i, c=str(WARP // 2 - 1))


def guards(routine: Routine) -> Iterator[int]:
    """Branches, not in loops, that threads take to do nothing but exit."""
    flow = control_flow(routine)
    for block in flow.blocks:
        taken = [flow.blocks[edge.target] for edge in block.edges if edge.via is Via.TAKEN and len(block.edges) == 2]
        ends = [one for one in taken if one.is_end and one.end - one.start == 1]
        if ends and block.index in flow.reachable and not comes_to(routine, block.end - 1, block.end - 1):
            yield block.end - 1


def unguarded(routine: Routine) -> Iterator[Site]:
    """Lets all threads go on."""
    for i in guards(routine):
        yield i, ""


def off_by_one(routine: Routine) -> Iterator[Site]:
    """Lets one thread too many go on, or one too few."""
    numbering = ssa(routine)
    for i in guards(routine):
        for number in numbering.uses[i]:
            j = next((j for j, defined in enumerate(numbering.definitions) if number in defined), None)
            words = routine.instructions[j].opcode.text.split(".") if j is not None else []
            if j is not None and words[0] == "setp" and words[1] in ELSE:
                yield j, statement(routine, j, ".".join([words[0], ELSE[words[1]], *words[2:]]))


def scales(routine: Routine) -> Iterator[Site]:
    """Takes elements of an array for twice as long."""
    numbering = ssa(routine)
    used = [number for one in accesses(routine) for number in numbering.uses[one.instruction]]
    for i in reachable(routine, r"(mul\.wide|shl)\."):
        by = constant(routine, i, "b")
        is_shift = routine.instructions[i].opcode.text.startswith("shl")
        if by in ((2, 3, 4) if is_shift else (4, 8, 16)) and numbering.computed_from(numbering.definitions[i]).intersection(used):
            yield i, statement(routine, i, b=str(by + 1 if is_shift else 2 * by))


def initializations(routine: Routine) -> Iterator[Site]:
    """Lets a register have no value before a loop."""
    numbering = ssa(routine)
    carried = {number for value in numbering.values for number in value.operands}
    for i in reachable(routine, r"mov\."):
        if constant(routine, i, "a") is not None and carried.intersection(numbering.definitions[i]):
            yield i, ""


def read_only(routine: Routine) -> Iterator[Site]:
    """Reads through the cache for what no thread writes where the kernel writes, too."""
    written = {one.address for one in accesses(routine) if one.writes and one.address is not None}
    loads = {one.instruction for one in accesses(routine) if one.address in written}
    for i in reachable(routine, r"ld\.global\.(v[24]\.)?[bfsu]\d+$"):
        if i in loads:
            yield i, statement(routine, i, routine.instructions[i].opcode.text.replace("ld.global", "ld.global.nc"))


def misaligned(routine: Routine) -> Iterator[Site]:
    """Moves the access of a vector by an element."""
    for i in reachable(routine, r"(ld|st)\..*\.v[24]\.\w?32$"):
        texts = [one.text.strip() for one in routine.instructions[i].operands]
        place = next(place for place, text in enumerate(texts) if text.startswith("["))
        name, _, offset = texts[place].strip("[] ").partition("+")
        if re.fullmatch(r"-?\d*", offset.strip()):
            texts[place] = f"[{name}+{int(offset or 0) + 4}]"
            guard = routine.instructions[i].guard
            yield i, f"{guard.text.strip() if guard is not None else ''} {routine.instructions[i].opcode.text} {', '.join(texts)};"


BARRIERS = r"bar(rier)?\.(cta\.)?sync\b"
MISTAKES = (
    Mistake("delete a barrier", without(BARRIERS, is_in_loop=False)),
    Mistake("delete a barrier in a loop", without(BARRIERS, is_in_loop=True)),
    Mistake("delete a barrier of a warp", without(r"bar\.warp\.sync")),
    Mistake("delete a fence of memory", without(r"(membar|fence)\.(?!proxy|mbarrier)")),
    Mistake("delete a store to shared memory", without(r"st\.shared\b")),
    Mistake("delete an initialization", initializations),
    Mistake("delete a guard", unguarded),
    Mistake("let a guard be off by one", off_by_one),
    Mistake("scale an index by twice as much", scales),
    Mistake("misalign a vector", misaligned),
    Mistake("weaken a release or acquire", relaxed),
    Mistake("change the count of a barrier", counts),
    Mistake("leave a lane out of a mask", masks),
    Mistake("halve the lanes of a shuffle", clamps),
    Mistake("load what is written as read-only", read_only),
)


def changes(routine: Routine) -> Iterator[tuple[int, str, str]]:
    """Instructions of a kernel, with what is done to them and what stands there then."""
    for mistake in MISTAKES if routine.function.header.is_entry else ():
        for i, instead in mistake.sites(routine):
            yield i, mistake.name, instead
