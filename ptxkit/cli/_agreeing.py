"""A verdict beside what `lint` says of the same kernel without running it: the two do not contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ptxkit.diagnostics import Severity

if TYPE_CHECKING:
    from ptxkit.analyses.verify.verdict import Verdict
    from ptxkit.syntax import Module


def agreed(module: Module, kernel: str, verdict: Verdict) -> Verdict:
    """The verdict, undecided instead of verified where `lint` has an error in the kernel; its warnings are said with what is not covered.

    What no execution shows, as a fragment that is loaded with another shape than it is used with, only `lint` sees.
    """
    from ptxkit.analyses.linting.linting import lint
    from ptxkit.analyses.verify.verdict import UNDECIDED, VERIFIED, Reason

    if verdict.outcome != VERIFIED:
        return verdict
    found = [one for one in lint(module, run=False) if one.function == kernel]
    errors = [one for one in found if one.severity is Severity.ERROR]
    reasons = tuple([Reason(f"lint has an error here: {one.message} ({one.rule})", one.span.line) for one in errors])
    warned = [f"lint warns of {one.rule} in line {one.span.line}" for one in found if one.severity is Severity.WARNING]
    outcome = UNDECIDED if reasons else VERIFIED
    return attrs.evolve(verdict, outcome=outcome, reasons=reasons, not_covered=(*verdict.not_covered, *warned))
