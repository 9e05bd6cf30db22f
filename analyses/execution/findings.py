"""What the findings and the fault of a run are about, and when two findings have the same cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ptxkit.analyses.execution.launch import Launch
from ptxkit.diagnostics import Severity

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code

OUTSIDE = frozenset(("fault-address", "out-of-bounds-access"))
"""Findings about accesses outside of allocations."""
UNKNOWN = frozenset(("unsupported", "extern", "call", "branch", "memory", "stack", "budget"))
"""Kinds of faults that are limits of the machine and no evidence about the kernel."""
OF_NUMBERS = frozenset(("address", "budget", "stack", "handle", "memory", "call", "branch"))
"""Kinds of faults that other scalars may avoid."""
NO_LAUNCH = frozenset(("launch", "shared"))
"""Kinds of faults that mean that the kernel cannot be launched with this shape."""
OF_LAUNCH = NO_LAUNCH | {"handle", "tensormap"}
"""Kinds of faults that mean that this launch, with these arguments, is not valid for the kernel."""


def cause_of(finding: Finding) -> tuple[Any, ...]:
    """Identity of a finding: rule, instruction, and related instructions."""
    diagnostic = finding.diagnostic
    return diagnostic.name, diagnostic.span, tuple([related.span for related in diagnostic.related])


def is_of_stores(finding: Finding) -> bool:
    """Whether a finding is about two stores."""
    accesses = finding.witness.get("accesses", ())
    return len(accesses) == 2 and all(one["kind"] == "write" for one in accesses)


def are_about(code: Code, finding: Finding, sites: Sequence[Any]) -> bool:
    """Whether all instructions that a finding names are among `sites`."""
    spans = {code.index.span(site.path) for site in sites}
    return {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]} <= spans


def is_about(code: Code, finding: Finding, sites: Sequence[Any]) -> bool:
    """Whether a finding is about memory that one of these instructions accesses. A finding about registers is not."""
    if finding.witness.get("space") == "register":
        return False
    spans = {finding.diagnostic.span, *[related.span for related in finding.diagnostic.related]}
    return any(code.index.span(site.path) in spans for site in sites)


def fault_space(fault: Fault) -> str:
    """The state space in which the access that ended a run found no memory to access; empty if it ended otherwise."""
    access = fault.access
    return "" if access is None or access.why == "misaligned" else access.space.partition("::")[0]


def is_explained(fault: Fault, findings: Sequence[Finding]) -> bool:
    """Whether a monitor's finding explains the fault: it is at the same instruction, or both are a deadlock."""
    span = fault.diagnostic.span
    wrong = [one.diagnostic for one in findings if one.diagnostic.severity is Severity.ERROR]
    if fault.kind in ("deadlock", "budget"):
        return any("deadlock" in one.name or one.span == span for one in wrong)
    return any(one.span == span for one in wrong)


def of_fault(fault: Fault, launch: Launch, schedule: str | int) -> Finding:
    """Converts a fault to a finding. Its witness lists the threads that could not continue."""
    from ptxkit.machine.findings import Finding

    accesses = [{"cta": list(cta), "thread": list(thread), "line": fault.line, "kind": fault.kind} for cta, thread in fault.threads]
    shape: dict[str, Any] = {"kernel": launch.kernel, "grid": list(launch.grid), "block": list(launch.block)}
    if launch.cluster is not None:
        shape["cluster"] = list(launch.cluster)
    if launch.shared:
        shape["shared"] = launch.shared
    if launch.cooperative:
        shape["cooperative"] = True
    shape["seed" if isinstance(schedule, int) else "schedule"] = schedule
    return Finding(fault.diagnostic, {"accesses": accesses, "launch": shape}, max(1, fault.count))
