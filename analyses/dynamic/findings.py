"""What the findings of a run are about, and whether another run shows the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.dynamic.once import Ran, Seen
from ptxkit.analyses.framework.bindings import matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.reached import reached
from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.machine.findings import Finding
from ptxkit.machine.monitors.addresses import OUTSIDE
from ptxkit.syntax import Address, Name

BARRIERS = "B"
"""The family of rules about barriers of a CTA."""
DIVERGENCE = "C"
"""The family of rules about divergence. With equal contents no thread diverges."""
TOGETHER = DIVERGENCE + BARRIERS
"""The families of rules about what threads must execute together."""
ASYNCHRONY = "AMT"
"""The families of rules about asynchronous copies, mbarriers and tensor memory."""
AT_ENDS = *TOGETHER, "R", "mbarrier-arrive-count"
"""The families of rules, and names of findings, that may concern only the last CTA, if not all of its threads have an element."""
OUT_OF_BOUNDS = OUTSIDE[1]
UNINITIALISED = "uninitialised-memory"
MISALIGNED = "misaligned-access"
SHUFFLE = "shfl-from-inactive-lane"
OF_ABSENT_LANES = frozenset((SHUFFLE, "membermask-names-absent-lanes"))
"""Names of findings about lanes that a warp collective names and that do not execute it."""
OF_VALUES = frozenset((UNINITIALISED, SHUFFLE))
"""Names of findings about undefined values that are used."""
OF_ALIGNMENT = frozenset((MISALIGNED, "cpasync-operand"))
"""Names of findings about the alignment of an address."""
OF_INITS = frozenset(("mbarrier-use-before-init", "mbarrier-double-init"))
"""Names of findings about the initialization of mbarriers."""
OF_COUNTS = frozenset(("barrier-count-vs-participants", "mbarrier-arrive-count"))
"""Names of findings about counts that are right for some numbers of threads only."""
OF_MASKS = frozenset(("executor-not-in-membermask", SHUFFLE))
"""Names of findings about membermasks. A mask that is computed from memory may be right for the contents that the host writes."""
OF_SHARED = frozenset(("smem-race", "implicit-warp-synchrony"))
"""Names of races in shared memory."""
RACES = OF_SHARED | {"race-global", "unordered-critical-section", "dsmem-access-unsynchronised", "nc-load-of-written-memory"}
"""Names of findings about two accesses of the same bytes, by addresses that made-up numbers may decide."""
UPDATES = "red", "atom"
"""Mnemonics of atomic updates."""


def lines_of(finding: Finding) -> set[int]:
    """The lines of a finding and of what is related to it."""
    return {finding.diagnostic.span.line, *[related.span.line for related in finding.diagnostic.related]}


def is_of(finding: Finding, families: Sequence[str]) -> bool:
    """Whether the rule of a finding belongs to one of the families, each named by a letter, or has one of the names."""
    return finding.diagnostic.rule[:1] in families or finding.diagnostic.name in families


def is_in_shared(finding: Finding) -> bool:
    """Whether a finding is about shared memory, of any CTA of the cluster."""
    return str(finding.witness.get("space", "")).partition("::")[0] in ("shared", "cluster")


def is_race(finding: Finding) -> bool:
    """Whether a finding is a race."""
    return finding.diagnostic.name in RACES


def is_deadlock(finding: Finding) -> bool:
    """Whether a finding is that the launch ends in a deadlock."""
    return "ends" in finding.witness


def is_of_addresses(finding: Finding) -> bool:
    """Whether a finding is about the address of an access, or of two."""
    return is_race(finding) or finding.diagnostic.name in (OUT_OF_BOUNDS, MISALIGNED)


def leaves_shared(finding: Finding) -> bool:
    """Whether a finding is about an access outside of a shared array."""
    return finding.diagnostic.name == OUT_OF_BOUNDS and finding.witness.get("space") == "shared"


def is_of_own_memory(finding: Finding) -> bool:
    """Whether a finding is about memory without a value that no other thread can have written: local memory, or discarded lines."""
    return finding.diagnostic.name == UNINITIALISED and finding.witness.get("space") != "shared"


def is_global_race(finding: Finding) -> bool:
    """Whether a finding is a race in global memory."""
    return is_race(finding) and finding.witness.get("space") == "global"


def is_between_ctas(finding: Finding) -> bool:
    """Whether a finding is a race in global memory between threads of two CTAs."""
    accesses = finding.witness.get("accesses", ())
    return is_global_race(finding) and len({tuple(one["cta"]) for one in accesses}) > 1


def is_of_writes(finding: Finding) -> bool:
    """Whether a finding is about two writes, which do not conflict if the values are equal."""
    accesses = finding.witness.get("accesses", ())
    return is_race(finding) and len(accesses) == 2 and all(one["kind"] == "write" for one in accesses)


def is_of_ends(finding: Finding, families: Sequence[str], routine: Routine, ran: Ran) -> bool:
    """Whether a finding may concern only the last CTA, whose threads may not all have an element. Threads that exit before a barrier, or
    after fewer iterations of its loop, do not count: hardware does not wait for them, and a kernel with barriers is usually launched
    without a partial CTA."""
    return is_of(finding, families) and "left" not in finding.witness and not exits_early(finding, routine, ran)


def exits_early(finding: Finding, routine: Routine, ran: Ran) -> bool:
    """Whether threads exit before a barrier because there is nothing to do for them; not if they branch around it, to what follows it."""
    if "exited" not in finding.witness:
        return False
    from ptxkit.analyses.uniformity.levels import Level
    from ptxkit.analyses.uniformity.uniformity import uniformity

    return not any(
        uniformity(of).branch(branch).level < Level.CTA and not _leads_to_exit(of, branch)
        for of in reached(routine)
        for i, _ in matching(of, lambda bound: bool(bound.barrier))
        if ran.code.index.span(of.where(i)).line == finding.diagnostic.span.line
        for branch in dominators(of).decided_by(control_flow(of).block_of[i], staying=True)
    )


def _leads_to_exit(routine: Routine, branch: int) -> bool:
    """Whether one side of a branch does nothing but exit, as at the end of a loop over the elements of a grid."""
    blocks = control_flow(routine).blocks
    sides = [blocks[side] for side in blocks[branch].successors]
    return any(side.is_end and side.end - side.start == 1 for side in sides)


def is_read_of_owned(finding: Finding, ran: Ran) -> bool:
    """Whether a finding is a race in shared memory of a read with a write whose address is the same for all contents."""
    accesses = finding.witness.get("accesses", ())
    written = {one["line"] for one in accesses if one["kind"] == "write"}
    if not is_race(finding) or not is_in_shared(finding) or is_of_writes(finding):
        return False
    return not written & {ran.line_of(site) for site in ran.addresses}


def is_update(finding: Finding, ran: Ran) -> bool:
    """Whether a finding is about a read-modify-write in shared memory: a load and a store at the same address expression, that store alone,
    or an atomic update and another access."""
    lines = lines_of(finding)
    sites = [site for body in ran.bodies for site in body.sites.made if id(site) in ran.observer.seen and isinstance(site.bound, Bound)]
    by_line = {ran.line_of(site): _address_of(site) for site in sites if site.bound.form.mnemonic in ("ld", "st")}
    loaded = {_address_of(site) for site in sites if site.bound.form.mnemonic == "ld"}
    named = {by_line.get(line) for line in lines}
    updates = {ran.line_of(site) for site in sites if site.bound.form.mnemonic in UPDATES}
    return is_in_shared(finding) and (bool(lines & updates) or (len(named) == 1 and named <= loaded))


def is_of_one_address(finding: Finding, ran: Ran) -> bool:
    """Whether all accesses of a finding use the same address expression."""
    lines = lines_of(finding)
    sites = [site for body in ran.bodies for site in body.sites if isinstance(site.bound, Bound) and ran.line_of(site) in lines]
    return len(lines) > 1 and len({_address_of(site) for site in sites}) == 1


def is_checked(finding: Finding, ran: Ran) -> bool:
    """Whether a finding is about a load and a compare-and-swap at the same address expression."""
    lines = lines_of(finding)
    if not is_race(finding) or len(lines) != 2 or not any(bound.has(".cas") for body in ran.bodies for bound in body.forms):
        return False
    sites = [site for body in ran.bodies for site in body.sites if isinstance(site.bound, Bound) and ran.line_of(site) in lines]
    does = {"cas" if site.bound.has(".cas") else site.bound.form.mnemonic for site in sites}
    return does == {"ld", "cas"} and is_of_one_address(finding, ran)


def _address_of(site: Any) -> tuple[str, ...]:
    """The names in an address expression."""
    return tuple([node.text for address in site.instruction.find(Address) for node in address.find(Name)])


def is_in(finding: Finding, other: Ran) -> bool:
    """Whether another run shows a finding of the same family on the same lines or, for a race in shared memory or an access outside of it,
    about the same variable: in an unrolled loop, other sizes make other copies of an access collide, or leave the variable."""
    return _seen_as(finding) in other.seen_as(_seen_as) or any(is_of_one_variable(finding, one) for one in other.wrong)


def are_in(asked: Sequence[Finding], found: Sequence[Finding]) -> bool:
    """Whether all of these are among the findings of a run, in the sense of `is_in`."""
    wrong = [one for one in found if one.diagnostic.severity is not Severity.INFO]
    seen = set(map(_seen_as, wrong))
    return all(_seen_as(one) in seen or any(is_of_one_variable(one, other) for other in wrong) for one in asked)


def is_of_one_variable(one: Finding, other: Finding) -> bool:
    """Whether both findings are races of one family in the same variable of shared memory, or accesses outside of it."""
    are_races = is_race(one) and is_race(other) and one.diagnostic.rule[:1] == other.diagnostic.rule[:1]
    if not are_races and {one.diagnostic.name, other.diagnostic.name} != {OUT_OF_BOUNDS}:
        return False
    names = {one.witness.get("variable"), other.witness.get("variable")}
    return one.witness.get("space") == other.witness.get("space") == "shared" and len(names) == 1 and "" not in names


def _seen_as(finding: Finding) -> Seen:
    """Key under which findings of different runs are the same: family of the rule and lines; for undefined values, only the line of the
    use. An access outside of a variable is not the same as a race on its line."""
    diagnostic = finding.diagnostic
    if diagnostic.name == OUT_OF_BOUNDS:
        return diagnostic.rule, frozenset(lines_of(finding))
    lines = {diagnostic.span.line} if diagnostic.name in OF_VALUES else lines_of(finding)
    return diagnostic.rule[:1], frozenset(lines)


def is_as_such_in(finding: Finding, other: Ran) -> bool:
    """Whether another run also shows a finding about a barrier, as a deadlock in both or in neither. True for all other findings."""
    if not is_of(finding, BARRIERS):
        return True
    ends, lines = is_deadlock(finding), lines_of(finding)
    return any(is_of(one, BARRIERS) and lines == lines_of(one) and ends == is_deadlock(one) for one in other.wrong)


def is_refuted(finding: Finding, other: Ran, ran: Ran | None = None) -> bool:
    """Whether another run reached the instructions and shows no such finding. It says nothing if it may lack threads: if it reads shared
    memory that no thread has written, other than what the run of the finding, if given, reads unwritten as well."""
    got_there = other.fault is None or (is_of(finding, TOGETHER) and lines_of(finding) <= other.lines)
    lacks_threads = finding.diagnostic.name != UNINITIALISED and not _unwritten(other) <= (_unwritten(ran) if ran else frozenset())
    return got_there and not lacks_threads and not is_in(finding, other)


def is_refuted_there(finding: Finding, other: Ran) -> bool:
    """Whether another run executes the instructions of a finding and does not show it."""
    return lines_of(finding) <= other.lines and is_refuted(finding, other)


def reads_unwritten(other: Ran) -> bool:
    """Whether the run reads shared memory that no thread has written. It may lack the threads that write it."""
    return bool(_unwritten(other))


def _unwritten(ran: Ran) -> frozenset[int]:
    """The lines on which a run reads shared memory that no thread has written."""
    found = [one for one in ran.wrong if one.diagnostic.name == UNINITIALISED and one.witness.get("space") == "shared"]
    return frozenset([one.diagnostic.span.line for one in found])
