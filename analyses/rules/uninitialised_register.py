"""R001 uninitialised-register."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg import Via, control_flow
from ptxkit.analyses.registers import registers
from ptxkit.analyses.routine import Routine
from ptxkit.analyses.rule import Facts, Rule
from ptxkit.analyses.undefined import undefined_reads
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax.nodes import Path

WITNESSES = 4


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The first read of each register that may hold nothing: an error if no way writes it before, a warning if one does not."""
    for routine in facts.routines:
        for read in undefined_reads(routine):
            name = registers(routine).table[read.register].name
            where = routine.where(read.instruction)
            if read.always:
                yield facts.report(RULE, where, f"`{name}` is read here, and nothing can have written it before")
                continue
            related = [*_branches(routine, read.way), *[(routine.where(i), f"`{name}` is written here, on another way") for i in read.writes[:1]]]
            message = f"`{name}` is read here, and there is a way to here on which nothing writes it"
            yield facts.report(RULE, where, message, related=related, severity=Severity.WARNING)


def _branches(routine: Routine, way: tuple[int, ...]) -> list[tuple[Path, str]]:
    """The last branches on a way that decide where it goes."""
    blocks = control_flow(routine).blocks
    found = []
    for block, after in zip(way, way[1:], strict=False):
        if len(blocks[block].successors) < 2:
            continue
        via = next(edge.via for edge in blocks[block].edges if edge.target == after)
        words = {Via.TAKEN: "with this branch taken", Via.NOT_TAKEN: "with this branch not taken"}.get(via, "with this branch")
        found.append((routine.where(blocks[block].end - 1), words))
    return found[-WITNESSES:]


RULE = Rule(
    id="R001",
    name="uninitialised-register",
    severity=Severity.ERROR,
    summary="a register that is read before anything wrote it",
    why="A register has no value until an instruction gives it one (5.1.1); ptxas takes whatever is there, without a word.",
    bad="add.u32 %r1, %r2, 1;\nst.global.u32 [%rd1], %r1;",
    good="mov.u64 %rd1, 0;\nmov.u32 %r2, 7;\nadd.u32 %r1, %r2, 1;\nst.global.u32 [%rd1], %r1;",
    check=check,
)
