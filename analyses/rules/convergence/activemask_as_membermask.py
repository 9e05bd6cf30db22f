"""C007 activemask-as-membermask."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.events.barriers import child_of
from ptxkit.analyses.framework.bindings import bindings, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.transfer import How, transfer
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.isa.binding import Bound

FEW = 4
"""Up to this many are reported individually in a function; of more, which are its convention, only the first."""


def check(facts: Facts) -> Iterator[Diagnostic]:
    """Member masks that are computed from the threads that happen to be active."""
    for routine in facts.routines:
        uses: dict[int, list[int]] = {}
        missed: dict[int, list[int]] = {}
        for i, bound in matching(routine, lambda bound: bound.members is not None and bound.members.reads):
            assert bound.members is not None
            mask = child_of(routine, i, bound.members)
            for source in _sources(routine, i, mask):
                uses.setdefault(source, []).append(i)
            for source in _sources(routine, i, mask, computed=False):
                if _may_be_missed(routine, source, i):
                    missed.setdefault(source, []).append(i)
        for source, users in missed.items():
            yield facts.report(
                RULE,
                routine.where(source),
                "this mask names lanes that may take another path before the instruction that waits for them",
                "the lanes of a path are the result of vote.sync.ballot with the condition of its branch",
                related=[(routine.where(user), "it is used as the membermask here") for user in users[:4]],
                severity=Severity.WARNING,
            )
        reported = [(source, users) for source, users in uses.items() if source not in missed]
        notes = ["these may differ from run to run, even where all threads take the same path"]
        if len(reported) > FEW:
            notes.append(f"the same holds for {len(reported) - 1} other masks of this function")
            reported = reported[:1]
        for source, users in reported:
            yield facts.report(
                RULE,
                routine.where(source),
                "this mask has the threads that happen to be converged here, but is used as the membermask of those that must take part",
                *notes,
                related=[(routine.where(user), "it is used as the membermask here") for user in users[:4]],
            )


def _may_be_missed(routine: Routine, source: int, user: int) -> bool:
    """Whether lanes that execute the source together may diverge before the user, so that some of them do not execute it.

    An instruction waits for no lane that has exited, but `shfl` may take a value from one. Under one guard, the same lanes execute both.
    """
    known, block_of, tree, terms = uniformity(routine), control_flow(routine).block_of, dominators(routine), values(routine)
    staying = routine.instructions[user].opcode.mnemonic != "shfl"
    between = tree.decided_by(block_of[user], staying) - tree.decided_by(block_of[source], staying)
    if any(known.branch(block).level < Level.WARP for block in between):
        return True
    if known.guard(user).level >= Level.WARP or terms.guard(user) == terms.guard(source):
        return False
    return not _is_same_for_members(routine, source, user)


def _is_same_for_members(routine: Routine, source: int, user: int) -> bool:
    """Whether the guard of the user is one result for all lanes of the mask: that of a vote, say, with the same mask."""
    numbering = ssa(routine)
    value = numbering.values[numbering.uses[user][0]]
    bound = bindings(routine)[value.instruction] if value.origin is Origin.WRITE else None
    if not isinstance(bound, Bound) or bound.members is None or not bound.members.reads:
        return False
    plan = transfer(bound)
    is_one = plan.outputs[0][0] is How.GROUP and len(plan.control) == 1
    return is_one and source in _sources(routine, value.instruction, child_of(routine, value.instruction, bound.members), computed=False)


def _sources(routine: Routine, i: int, child: int, computed: bool = True) -> list[int]:
    """The instructions that determined the active threads from which the registers of an operand are computed; with `computed` false, those
    of which it is a copy."""
    numbering, named, bounds = ssa(routine), registers(routine), bindings(routine)
    read = set(named.of(i, routine.instructions[i].children[child]))
    used = [number for register, number in zip(named.reads[i], numbering.uses[i], strict=False) if register in read and number >= 0]
    found: set[int] = set()

    def sources(number: int) -> list[int]:
        value = numbering.values[number]
        before = value.operands
        if value.origin is Origin.WRITE:
            bound = bounds[value.instruction]
            if not isinstance(bound, Bound) or bound.memory or bound.converges is not None or bound.flow:
                return []
            if bound.members is not None and bound.members.writes:
                found.add(value.instruction)
                return []
            if not computed and bound.form.mnemonic != "mov":
                return []
            before += numbering.uses[value.instruction]
        return [one for one in before if one >= 0]

    closure(used, sources)
    return sorted(found)


RULE = Rule(
    id="C007",
    name="activemask-as-membermask",
    severity=Severity.INFO,
    summary="the result of activemask is used as the member mask of a .sync instruction",
    why=(
        "activemask names the lanes that happen to execute it together; nothing guarantees that all lanes that take this path do "
        "(9.7.14.11)."
    ),
    bad="""
        activemask.b32 %r1;
        mov.u32 %r2, 1;
        redux.sync.add.s32 %r3, %r2, %r1;
    """,
    good="""
        mov.u32 %r1, -1;
        mov.u32 %r2, 1;
        redux.sync.add.s32 %r3, %r2, %r1;
        activemask.b32 %r4;
    """,
    proof=(
        "The mask comes from activemask. Whether lanes were missing is not known, so it is only information; it is a warning if"
        " lanes may diverge before they reach the instruction that waits."
    ),
    sanitizer="none of its tools looks for this.",
    check=check,
)
