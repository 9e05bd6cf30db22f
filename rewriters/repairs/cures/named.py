"""Named barriers (9.7.14.1): inconsistent counts, invalid numbers, too many arrivals."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.events.barriers import barriers
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.rewriters.repairs.candidate import BARRIER, LAST, Candidate, change, insertion
from ptxkit.rewriters.repairs.points import Point, level
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import changed, position

FAMILIES = "BCS"
ORDERING = "SAP"
"""Rules about the order of two threads, which may belong to a group with its own barrier."""
MOST_NUMBER = 15


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """Another use of a group's barrier; the count of another use, or of all threads; another number; one arrival less."""
    uses = barriers(trouble.routine).cta
    if trouble.family in ORDERING and not trouble.is_of_a_thread:
        for number, threads in dict.fromkeys([(one.number, one.threads) for one in uses if one.number and one.threads and one.waits]):
            for point in trouble.common(Level.WARP):
                yield insertion(trouble, point, BARRIER, f"bar.sync {number}, {threads};")
    if trouble.family not in FAMILIES:
        return
    own = [one for one in uses if one.instruction in trouble.instructions]
    block = next((one["launch"].get("block") for one in trouble.witnesses if "launch" in one), None) or [0, 1, 1]
    counts = [one.threads for one in uses if one.threads] + [block[0] * block[1] * block[2]]
    for one in own:
        bound = trouble.bound(one.instruction)
        n = position(bound, bound.threads.name) if bound is not None and bound.threads is not None else None
        for count in dict.fromkeys(counts) if n is not None else ():
            if count and count != one.threads and count % 32 == 0:
                yield change(trouble, one.instruction, changed(trouble.routine, one.instruction, operands={n: str(count)}))  # type: ignore[dict-item]
    numbers = [one.number for one in own if one.number is not None]
    for count in dict.fromkeys(counts):
        same = [one for one in uses if one.number in numbers and one.threads and one.threads != count]
        if len(same) > 1 and count and count % 32 == 0:
            yield _together(trouble, [one.instruction for one in same], count)
    yield from _met(trouble)
    if trouble.family == "B":
        yield from _not_reduced(trouble, [one.instruction for one in own])
        yield from _renumbered(trouble, {one.number for one in uses if one.number is not None})
        for one in own:
            if one.arrives and not one.waits:
                yield change(trouble, one.instruction, "", LAST)


def _met(trouble: Trouble) -> Iterator[Candidate]:
    """A wait at a barrier at which others only arrive, before an access that none of them reaches."""
    uses = barriers(trouble.routine).cta
    for use in [one for one in uses if one.arrives and not one.waits and one.number is not None and one.threads]:
        if any(one.number == use.number and one.waits for one in uses):
            continue
        for end in dict.fromkeys([i for pair in trouble.accesses for i in pair]):
            apart = not comes_to(trouble.routine, end, use.instruction) and not comes_to(trouble.routine, use.instruction, end)
            if apart and level(trouble.routine, Point(end)) >= Level.WARP:
                yield insertion(trouble, Point(end), BARRIER, f"bar.sync {use.number}, {use.threads};")


def _not_reduced(trouble: Trouble, instructions: list[int]) -> Iterator[Candidate]:
    """A plain wait instead of a reduction whose result is unused."""
    known = registers(trouble.routine)
    read = {number for own in known.reads for number in own}
    for i in instructions:
        bound = trouble.bound(i)
        if bound is None or not bound.writes or not read.isdisjoint(known.writes[i]):
            continue
        one = trouble.routine.instructions[i]
        kept = [n for name in ("a", "b") if (n := position(bound, name)) is not None]
        aligned = ".aligned" if bound.has(".aligned") else ""
        guard = f"{one.guard.text.strip()} " if one.guard is not None else ""
        operands = ", ".join([one.operands[n].text.strip() for n in kept])
        yield change(trouble, i, f"{guard}{bound.form.mnemonic}.sync{aligned} {operands};")


def _together(trouble: Trouble, instructions: list[int], count: int) -> Candidate:
    """One count in all uses of a barrier."""
    parts = []
    for i in instructions:
        bound = trouble.bound(i)
        n = position(bound, bound.threads.name) if bound is not None and bound.threads is not None else None
        if n is not None:
            parts.append(change(trouble, i, changed(trouble.routine, i, operands={n: str(count)})))
    says = "; ".join([one.says for one in parts])
    return Candidate(says, tuple([edit for one in parts for edit in one.edits]), sum([one.price for one in parts]), tuple(instructions))


def _renumbered(trouble: Trouble, taken: set[int]) -> Iterator[Candidate]:
    """A valid number: first that of another use, since barriers are reused, then a free one."""
    for i in trouble.instructions:
        bound = trouble.bound(i)
        n = position(bound, "a") if bound is not None and bound.barrier and bound.barrier[0].operand == "a" else None
        if n is None:
            continue
        free = [number for number in range(MOST_NUMBER + 1) if number not in taken]
        for number in dict.fromkeys([0, *free[:1]]):
            yield change(trouble, i, changed(trouble.routine, i, operands={n: str(number)}))
