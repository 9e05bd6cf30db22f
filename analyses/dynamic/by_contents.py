"""Questions: does a finding appear with other contents of memory too, and does what it reports matter?"""

from __future__ import annotations

from collections.abc import Set

import attrs

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.dynamic.case import RANDOM, Case, Findings, keep
from ptxkit.analyses.dynamic.effects import Effects
from ptxkit.analyses.dynamic.findings import (
    DIVERGENCE,
    MISALIGNED,
    OF_MASKS,
    OF_SHARED,
    OUT_OF_BOUNDS,
    SHUFFLE,
    UNINITIALISED,
    exits_early,
    is_checked,
    is_deadlock,
    is_global_race,
    is_in,
    is_of,
    is_of_one_address,
    is_of_own_memory,
    is_of_writes,
    is_race,
    leaves_shared,
    lines_of,
)
from ptxkit.analyses.dynamic.once import Ran
from ptxkit.analyses.dynamic.reads import Reads
from ptxkit.analyses.dynamic.wrapping import LOADED, wraps
from ptxkit.analyses.execution.contents import COUNT, ZEROS
from ptxkit.analyses.framework.bindings import bindings, has_matching, matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.launches import Sizes
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound
from ptxkit.machine.findings import Finding

ELEMENTS = 16
"""Elements for each thread, so that all registers that may hold one do."""
CONFLICTING = DIVERGENCE + "SGAPTW"
"""The families of rules about conflicting accesses, which may conflict at any address, and about divergence, which no contents
of memory may cause."""
MORE_SEEDS = (2, 3, 4)
"""Further random contents."""
UNWAITED = "async-data-read-without-wait"
"""Name of a finding about two accesses in a family that is about waiting."""
UNWRITTEN = "uninitialised-register"
"""Name of the finding about a register that nothing has written."""
DIVERGENT = "aligned-barrier-divergent"
"""Name of the finding about threads that miss a barrier."""


def depends(case: Case, finding: Finding) -> bool:
    """Whether a finding depends on synthesized contents: because one of its lines does, or because threads do not diverge with other
    contents."""
    if case.setting.contents not in (COUNT, ZEROS):
        return True
    if is_of(finding, DIVERGENCE) and not all(is_in(finding, one) for one in case.with_other_contents((finding,))):
        return True
    # which bytes two writes access may be certain, while contents decide what they store
    lines = case.dependent_stores if is_of_writes(finding) else case.dependent
    at = lines_of(finding)
    if finding.diagnostic.name == UNINITIALISED:
        # a branch by an undefined value depends on contents in any case: that value is read from memory
        at -= case.branches
    return bool(at & lines) and not is_of_own_memory(finding)


def is_by_coincidence(finding: Finding, ran: Ran) -> bool:
    """Whether two threads write equal values to one word, which are computed from synthesized contents: others may differ."""
    return is_of_writes(finding) and bool(lines_of(finding) & set(map(ran.line_of, ran.stores)))


def is_compared_and_swapped(case: Case, finding: Finding) -> bool:
    """A compare-and-swap of the word that a load races for follows: it fails if the word has changed."""
    return is_checked(finding, case.ran)


def is_by_table(case: Case, finding: Finding) -> bool:
    """The host fills the tables from which the addresses come: each thread may have elements of its own. Threads that update what they
    have loaded from there lose updates all the same."""
    return is_global_race(finding) and bool(lines_of(finding) & case.by_tables) and not _loses_updates(case, finding)


def is_of_bits(case: Case, finding: Finding) -> bool:
    """An unwritten word is read to set some of its bits, and stored where it was: these may be all bits that anything reads later."""
    if finding.diagnostic.name != UNINITIALISED:
        return False
    lines, index = lines_of(finding), case.runs.code.index
    return any(
        _sets_bits(of, one.instruction, other.instruction)
        for of in reached(case.routine)
        for one in accesses(of)
        if one.reads and one.address is not None and index.span(of.where(one.instruction)).line in lines
        for other in accesses(of)
        if other.writes and other.address == one.address
    )


def _sets_bits(routine: Routine, load: int, store: int) -> bool:
    """Whether a load has no use but that its value, with some bits replaced, is stored by another instruction of the same block."""
    numbering, block_of = ssa(routine), control_flow(routine).block_of
    read = numbering.definitions[load]
    users = [i for number in read for i in numbering.readers[number]]
    masked = bool(users) and all(_replaces_bits(bindings(routine)[i]) for i in users)
    return masked and block_of[load] == block_of[store] and not numbering.computed_from(read).isdisjoint(numbering.uses[store])


def _replaces_bits(bound: object) -> bool:
    """Whether an instruction computes its operand with some bits replaced."""
    return isinstance(bound, Bound) and bound.operator in ("and", "bfi")


def is_of_a_tagged_structure(case: Case, finding: Finding) -> bool:
    """A register that nothing has written is stored as a member of a structure, of which another member is one of several constants: that
    one may say that the others hold nothing."""
    if finding.diagnostic.name != UNWRITTEN:
        return False
    index, line = case.runs.code.index, finding.diagnostic.span.line
    return any(
        _is_one_of_several_constants(of, other.instruction)
        for of in reached(case.routine)
        for one in accesses(of)
        if one.writes and one.address is not None and index.span(of.where(one.instruction)).line == line
        for other in accesses(of)
        if other.writes and other.address is not None and other.address.linear[1] == one.address.linear[1]
        if control_flow(of).block_of[other.instruction] == control_flow(of).block_of[one.instruction]
    )


def _is_one_of_several_constants(routine: Routine, i: int) -> bool:
    """Whether an instruction stores a value that is a constant on each path."""
    term = values(routine).operand(i, routine.instructions[i].operands[1])
    return term is not None and term.operator in ("join", "select") and all(one.constant is not None for one in term.args if one.width > 1)


def _loses_updates(case: Case, finding: Finding) -> bool:
    """Whether the accesses of a finding are at one address expression, and no load is there whose value the store does not use: then
    threads that share an address lose updates. Threads that swap elements have their own."""
    if not is_of_one_address(finding, case.ran):
        return False
    lines, index = lines_of(finding), case.runs.code.index
    for of in reached(case.routine):
        found = [one for one in accesses(of) if index.span(of.where(one.instruction)).line in lines]
        loaded = [number for one in found if one.reads for number in ssa(of).definitions[one.instruction]]
        stores = [one.instruction for one in found if not one.reads]
        if loaded and stores and not ssa(of).computed_from(loaded) & {number for i in stores for number in ssa(of).uses[i]}:
            return False
    return True


def with_a_reader(case: Case, found: Findings) -> Findings:
    """Two threads store to shared memory what no thread reads: neither result matters. Asked only of a run to completion without
    asynchronous operations."""
    stores = {line for one in found if is_of_writes(one) and one.witness.get("space") == "shared" for line in lines_of(one)}
    if not stores or case.ran.fault is not None or any(has_matching(one, _is_in_flight) for one in reached(case.routine)):
        return found
    reads = Reads(stores)
    if case.again(also=(reads,)).fault is not None:
        return found
    unread = set(reads.lines) - reads.read
    return keep(found, lambda one: not (is_of_writes(one) and lines_of(one) & unread))


def with_an_effect(case: Case, found: Findings) -> Findings:
    """A thread reads what another writes, and then writes nothing itself, as where a compiler has several threads load one element and a
    single one store the result: what it has read has no effect. Asked only if threads exchange values through memory alone, and if the
    kernel stores what it computes from the value: in other threads then."""
    asked = keep(found, lambda one: is_race(one) and not is_of_writes(one) and _is_stored(case, one))
    if not asked or case.ran.fault is not None or any(has_matching(one, _exchanges) for one in reached(case.routine)):
        return found
    effects = Effects(frozenset().union(*map(lines_of, asked)))
    if case.again(also=(effects,)).fault is not None:
        return found
    return keep(found, lambda one: one not in asked or effects.meet(lines_of(one)))


def _is_stored(case: Case, finding: Finding) -> bool:
    """Whether the kernel writes memory with a value, or at an address, that is computed from what the lines of a finding load."""
    lines, index = lines_of(finding), case.runs.code.index
    for of in reached(case.routine):
        found = accesses(of)
        read = [one for one in found if one.reads and index.span(of.where(one.instruction)).line in lines]
        computed = ssa(of).computed_from([number for one in read for number in ssa(of).definitions[one.instruction]])
        if any(number in computed for one in found if one.writes for number in ssa(of).uses[one.instruction]):
            return True
    return False


def _exchanges(bound: Bound) -> bool:
    """Whether an instruction may pass values between threads other than by a load and a store, or accesses memory later."""
    is_collective = bound.converges is not None and bound.converges.level == "warp"
    return is_collective or bool(bound.asynchronous) or _is_in_flight(bound) or bound.has(".red")


def _is_in_flight(bound: Bound) -> bool:
    return any(memory.is_async for memory in bound.memory)


def with_other_contents(case: Case, found: Findings) -> Findings:
    """With random contents and with zeros; two writes, whose values may differ for some contents only, also with all elements different.

    Where contents decide which lanes diverge, one choice of random contents may happen to keep those together that exchange values: some of
    several show it.
    """
    again = case.with_other_contents(found)
    mixed = _mixed(case, keep(found, is_of_writes))

    def others(one: Finding) -> tuple[Ran, ...]:
        return (*_telling(case, one, again), *mixed) if is_of_writes(one) else _telling(case, one, again)

    left = keep(found, lambda one: _is_kept_too_large(case, one) or all(_appears(one, other) for other in others(one)))
    return keep(found, lambda one: one in left or (bool(again) and is_of(one, DIVERGENCE) and _appears_for_others(case, one)))


def _appears_for_others(case: Case, finding: Finding) -> bool:
    """Whether one of several further choices of random contents shows a finding."""
    return any(is_in(finding, case.again(attrs.evolve(RANDOM, seed=seed), asked=(finding,), zeroed=case.flags)) for seed in MORE_SEEDS)


def _mixed(case: Case, writes: Findings) -> tuple[Ran, ...]:
    """Runs that tell two writes of different values from two whose values happen to be equal."""
    if not writes:
        return ()
    mixed = case.with_other_contents(writes)[:1] or (case.again(RANDOM, asked=writes, zeroed=case.flags),)
    filled = _with_elements_for_all(case) if any(lines_of(one) & case.dependent_stores for one in writes) else None
    return mixed if filled is None else (*mixed, filled)


def _with_elements_for_all(case: Case) -> Ran | None:
    """A run in which each thread has all its elements and all are different, for stores that depend on contents. Threads that select
    one of several equal elements may store different results, which is harmless. None if there is no such run."""
    one = case.runs.example(case.shape, Sizes(scale=ELEMENTS))
    if one == case.runs.example(case.shape, Sizes()):
        return None
    ran = case.runs.once(one, attrs.evolve(case.setting, contents=COUNT))
    return None if ran.outside or ran.fault is not None else ran


def _telling(case: Case, finding: Finding, again: tuple[Ran, ...]) -> tuple[Ran, ...]:
    """The runs with random contents and with zeros that can refute a finding.

    With zeros only, threads that compute their indices from contents may each get a word of their own, no threads diverge, and two values
    are equal. That does not excuse a race, or a divergence, with other contents; nor two writes that all contents bring to one word.
    """
    is_meeting = finding.diagnostic.name in OF_SHARED and (not is_of_writes(finding) or _is_for_all_contents(case, finding))
    return again[:1] if is_meeting or is_of(finding, DIVERGENCE) else again


def _appears(finding: Finding, other: Ran) -> bool:
    """Whether a run with other contents shows the finding. For shared memory and divergence, a run that does not reach the instructions
    refutes nothing; for a deadlock, neither does one that leaves global memory, by indices in synthesized contents."""
    is_short = (finding.diagnostic.name in OF_SHARED or is_of(finding, DIVERGENCE)) and not lines_of(finding) <= other.lines
    has_left = is_deadlock(finding) and other.outside == ".global"
    return is_in(finding, other) or is_short or has_left


def _is_for_all_contents(case: Case, finding: Finding) -> bool:
    """Whether contents decide neither where the accesses of a finding are nor, by a branch, whether they are executed."""
    return not lines_of(finding) & case.dependent and not any(
        dominators(of).decided_by(block) & _blocks_of(case, of, case.dependent)
        for of in reached(case.routine)
        for block in _blocks_of(case, of, lines_of(finding))
    )


def _blocks_of(case: Case, routine: Routine, lines: Set[int]) -> set[int]:
    """The basic blocks with instructions on these lines."""
    index, block_of = case.runs.code.index, control_flow(routine).block_of
    return {block_of[i] for i in range(len(routine.instructions)) if index.span(routine.where(i)).line in lines}


def is_of_exited_threads(case: Case, finding: Finding) -> bool:
    """Contents decide which threads exit before a barrier: hardware does not wait for them."""
    return finding.diagnostic.name == DIVERGENT and exits_early(finding, case.routine, case.ran) and depends(case, finding)


def is_of_contents(case: Case, finding: Finding) -> bool:
    """Contents decide what happens, and the host may write others. What conflicts or diverges does so for some contents, which a kernel
    must expect, unless a single address or a membermask that comes from contents is at fault. All of an index that the kernel itself keeps
    below a constant must be in its array."""
    name = finding.diagnostic.name
    is_conflict = is_race(finding) or is_of(finding, CONFLICTING) or name == UNWAITED
    is_masked = name in OF_MASKS and (bool(lines_of(finding) & case.addresses) if name != SHUFFLE else _names_lanes(case, finding))
    is_certain = is_conflict and name not in {OUT_OF_BOUNDS, MISALIGNED} and not is_masked
    return not is_certain and depends(case, finding) and not _is_kept_too_large(case, finding)


def _names_lanes(case: Case, finding: Finding) -> bool:
    """Whether memory decides which lanes the shuffle of a finding names.

    A vote names those for which a condition holds: if these execute the shuffle and read from a fixed lane, the kernel must expect each
    result. One in which lanes execute it that the vote leaves out may be meant for contents for which the condition holds in all.
    """
    lines, index = lines_of(finding) & case.addresses, case.runs.code.index
    if any(one.diagnostic.name in OF_MASKS - {SHUFFLE} and lines_of(one) & lines for one in case.ran.wrong):
        return True
    return any(
        index.span(of.where(i)).line in lines and not _is_by_vote(of, i, bound)
        for of in reached(case.routine)
        for i, bound in matching(of, lambda one: one.members is not None)
    )


def _is_by_vote(routine: Routine, i: int, bound: Bound) -> bool:
    """Whether a membermask is the result of a vote, and the lane that is read from is a constant."""
    known, operands = values(routine), routine.instructions[i].operands
    mask = known.operand(i, operands[bound.members.path[0]]) if bound.members is not None else None
    if mask is None or mask.ssa_value is None or not bound.lane:
        return False
    source = bindings(routine)[ssa(routine).values[mask.ssa_value].instruction]
    lane = known.operand(i, operands[bound.lane[0].path[0]])
    return lane is not None and lane.constant is not None and isinstance(source, Bound) and source.form.mnemonic == "vote"


def _is_kept_too_large(case: Case, finding: Finding) -> bool:
    """Whether an index from memory leaves a shared array, although the kernel keeps it below a constant."""
    return leaves_shared(finding) and wraps(case, finding, LOADED)
