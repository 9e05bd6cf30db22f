"""Findings about registers of asynchronous operations, shared by the rules for their different causes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptxkit.analyses.events.registers_in_flight import UNCOMMITTED, Program, RegisterAccess, is_certain, witness
from ptxkit.analyses.framework.reporting import UNSURE_OF_BYTES, lines
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.analyses.protocols.proxy.accesses import proxy_fences
from ptxkit.analyses.protocols.proxy.crossings import Crossing
from ptxkit.analyses.protocols.proxy.unfenced_handoffs import UnfencedHandoff
from ptxkit.analyses.protocols.wgmma.register_fences import Unfenced
from ptxkit.analyses.registers.registers import registers
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.names import Symbol


def in_flight_reports(
    facts: Facts,
    rule: Rule,
    routine: Routine,
    of: Program | None,
    accessed: Sequence[RegisterAccess],
    why: str,
    note: str = "",
    severity: Severity | None = None,
) -> Iterator[Diagnostic]:
    """One finding for each operation whose registers are accessed."""
    for access in accessed if of is not None else ():
        assert of is not None
        name = registers(routine).table[access.register].name
        role = "is read by" if access.is_source else "is being written by"
        certain = severity is not None or is_certain(of, access)
        notes = [] if certain else ["there are paths on which this does not happen"]
        steps = witness(of, access)
        # for an uncommitted operation, the error is at the wait
        waits = [i for i, what in steps if what == UNCOMMITTED] if access.is_open else []
        at = waits[0] if waits else access.instruction
        does = "written" if access.writes else "read"
        message = f"`{name}` is {does} here, and {role} an operation that may be in flight: {why}"
        if waits:
            uses = "reads" if access.is_source else "writes"
            message = f"this does not wait for the operation that {uses} `{name}`, which is {does} next: {why}"
            steps.append((access.instruction, f"{does} here"))
        yield facts.report(
            rule,
            routine.where(at),
            message,
            *notes,
            *([note] if note else []),
            related=[(routine.where(i), what) for i, what in steps if i != at],
            severity=severity or (Severity.ERROR if certain else Severity.WARNING),
        )


def unfenced_reports(facts: Facts, rule: Rule, routine: Routine, found: Sequence[Unfenced]) -> Iterator[Diagnostic]:
    """One finding for each operation that lacks a fence; if registers are written after the fence, one for each such write."""
    reported = set()
    for one in found:
        name = registers(routine).table[one.register].name if one.register >= 0 else ""
        if one.is_first or one.by_operation:
            at, other = one.instruction, (one.access, "accessed here")
            message = f"`{name}` is accessed before this without a wgmma.fence in between"
            if one.access < 0:
                message = "this operation has no wgmma.fence before it on a path from the start of the kernel"
        else:
            at, other = one.access, (one.instruction, "used here")
            message = f"`{name}` is accessed here, after the wgmma.fence and before the operation that uses it"
        if at not in reported:
            reported.add(at)
            related = [(routine.where(other[0]), other[1])] if other[0] >= 0 else []
            yield facts.report(rule, routine.where(at), message, "ptxas inserts a fence (C7519)", related=related)


def crossing_reports(facts: Facts, rule: Rule, routine: Routine, found: Sequence[Crossing], reads: str) -> Iterator[Diagnostic]:
    """A finding for each access through another proxy; for uncertain ones, one for each variable. `reads` says in words what accesses the
    variable, and how.

    If the bytes may differ, it is a warning in a function without any fence, otherwise a note.
    """
    # a program with fences may have placed them knowing the bytes; one without any has not considered proxies
    unsure_severity = Severity.INFO if rule.severity is Severity.INFO or proxy_fences(routine) else Severity.WARNING
    causes: dict[tuple[str, int], list[Crossing]] = {}
    for i, one in enumerate(found):
        # one misplaced fence is one finding, and so is all that is guessed about one array
        is_guess = one.is_guess and rule.severity is not Severity.INFO
        cause = ("fence", one.fence) if one.fence >= 0 else ("guess", id(one.read.root)) if is_guess else ("", i)
        causes.setdefault(cause, []).append(one)
    for others in causes.values():
        one = max(others, key=lambda one: one.is_certain and not one.is_guess)
        name = one.read.root.name if isinstance(one.read.root, Symbol) else str(one.read.root)
        message = f"{reads} `{name}`, which was accessed through the generic proxy before, with no fence.proxy.async in between"
        related = [(routine.where(one.write.instruction), "accessed through the generic proxy here")]
        if one.fence >= 0:
            stands = "comes after the barrier, where not all writers execute it" if one.is_late else "comes before the write"
            message = f"this proxy fence {stands}: `{name}` was written through the generic proxy, and {reads} it"
        certain = (one.is_certain or rule.severity is Severity.INFO) and not one.is_guess
        unsure = UNSURE_OF_BYTES[0 if one.is_guess else 1]
        at = one.read.instruction
        if one.fence >= 0:
            at = one.fence
            related = [related[0], (routine.where(one.read.instruction), "read here")]
        related += [(routine.where(i), "also accessed here") for i in one.others]
        more = {other.read.instruction for other in others} - {at}
        yield facts.report(
            rule,
            routine.where(at),
            message,
            *([] if certain else [unsure]),
            *([f"the same holds {lines(facts, routine, more)}"] if more else []),
            related=related,
            severity=rule.severity if certain else Severity.INFO if one.is_guess else unsure_severity,
        )


def unfenced_handoff_reports(
    facts: Facts, rule: Rule, routine: Routine, found: Iterable[UnfencedHandoff], reads: str
) -> Iterator[Diagnostic]:
    """A note for each barrier that signals unfenced accesses: nothing shows that the bytes read are those written. For `reads`, see
    `crossing_reports`."""
    for one in found:
        write, read = one.crossing.write, one.crossing.read
        name = read.root.name if isinstance(read.root, Symbol) else str(read.root)
        message = f"this signals that `{name}` was accessed through the generic proxy, and {reads} it, with no fence.proxy.async in between"
        related = [(write.instruction, "accessed through the generic proxy here"), (read.instruction, "and through the async proxy here")]
        if one.fence >= 0:
            related.append((one.fence, "the next fence is here" if one.is_late else "a fence follows another access here"))
        sites = [(routine.where(i), how) for i, how in related]
        yield facts.report(rule, routine.where(one.barrier), message, related=sites, severity=Severity.INFO)
