"""R001 uninitialised-register."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.undefined import UndefinedRead, undefined_reads
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.syntax import Path


def check(facts: Facts) -> Iterator[Diagnostic]:
    """The first read of each uninitialized register: an error if no path writes it before, a warning if some path does not.

    It is a note if only a load was skipped, or the value may have no effect, which may be intentional, or if memory contents decide whether
    it happens, or if no example launch gets there; registers at one location are reported together.
    """
    for routine in facts.routines:
        table, block_of = registers(routine).table, control_flow(routine).block_of
        together: dict[tuple[int, int, bool], list[UndefinedRead]] = {}
        for read in undefined_reads(routine):
            if read.always:
                yield facts.report(
                    RULE,
                    routine.where(read.instruction),
                    f"`{table[read.register].name}` is read here, but no path to here writes it",
                )
            else:
                is_note = read.only_loads or not read.is_shown or read.is_of_contents or not _may_get_there(routine, read)
                index = (block_of[read.instruction], -1) if is_note else (read.point, read.target)
                together.setdefault((*index, is_note), []).append(read)
        for (*_, is_note), reads in together.items():
            first = reads[0]
            name = table[first.register].name
            notes = []
            if len(reads) > 1:
                notes.append("the same holds for " + _listed([table[read.register].name for read in reads[1:]]))
            if is_note:
                usual = "on other paths it is loaded; " if first.only_loads else ""
                notes.append(f"{usual}this is not a bug if the program discards the result here")
                if first.is_of_contents:
                    notes[-1] = "memory contents decide whether control gets there: this is not a bug if it never does"
            message = f"`{name}` is read here, and there is a path to here on which nothing writes it"
            severity = Severity.INFO if is_note else Severity.WARNING
            where = routine.where(first.instruction)
            yield facts.report(RULE, where, message, *notes, related=_witness(routine, first, name), severity=severity)


def _may_get_there(routine: Routine, read: UndefinedRead) -> bool:
    """Whether some thread of an example launch may reach the branch and take the side on which nothing writes the register. No thread
    does if an earlier branch excludes the condition."""
    if read.target < 0 or read.point < 0 or not routine.function.header.is_entry:
        return True
    from ptxkit.analyses.uniformity.example_runs import worlds
    from ptxkit.analyses.uniformity.levels import Level

    flow = control_flow(routine)
    block = flow.block_of[read.point]
    edges = [edge for edge in flow.blocks[block].edges if edge.target == read.target]
    return any((world.reaching(block) & world.taking(edges)).may for world in worlds(routine).all(Level.CTA))


def _listed(names: list[str]) -> str:
    shown = ", ".join([f"`{name}`" for name in names[:8]])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"


def _witness(routine: Routine, read: UndefinedRead, name: str) -> list[tuple[Path, str]]:
    if read.target < 0:
        return [(routine.where(read.point), f"if the guard does not hold, `{name}` stays unwritten")]
    found = [(routine.where(read.write), f"`{name}` is written here, on another path")] if read.write >= 0 else []
    if read.point < 0:
        return found
    block = control_flow(routine).blocks[control_flow(routine).block_of[read.point]]
    via = next(edge.via for edge in block.edges if edge.target == read.target)
    how = {Via.TAKEN: "if this branch is taken", Via.NOT_TAKEN: "if this branch is not taken"}.get(via, "from here on")
    return [(routine.where(read.point), f"{how}, every path reaches the read, and nothing has written `{name}`"), *found]


RULE = Rule(
    id="R001",
    name="uninitialised-register",
    severity=Severity.ERROR,
    summary="a register is read before anything writes it",
    why="A register has no value until an instruction writes it (5.1.1); ptxas uses what is there, without a warning.",
    bad="""
        add.u32 %r1, %r2, 1;
        st.global.u32 [%rd1], %r1;
    """,
    good="""
        mov.u64 %rd1, 0;
        mov.u32 %r2, 7;
        add.u32 %r1, %r2, 1;
        st.global.u32 [%rd1], %r1;
    """,
    proof=(
        "All paths from the entry to the read are followed, with guards and branches on one predicate kept together; it is an "
        "error if no path writes the register."
    ),
    sanitizer="initcheck looks at memory, not at registers.",
    check=check,
)
