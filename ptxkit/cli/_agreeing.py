"""Reconciles a verdict with the findings of `lint` for the same kernel, so that the two do not contradict each other."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from ptxkit.diagnostics import Severity

if TYPE_CHECKING:
    from ptxkit.analyses.execution.result import Shown
    from ptxkit.analyses.verify.verdict import Verdict
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.syntax import Module

SECONDS = 60.0
"""Time limit in seconds for executing the module's kernels with example launches in `lint`: what it does not reach raises no doubt."""
VERSIONS = "V"
"""The rule family for requirements of a module: no execution shows these."""
OF_THE_HARDWARE = frozenset(("activemask-as-membermask",))
"""Rules about choices of the hardware, which the machine has made in one particular manner."""
OF_BOUNDS = "missing-bounds-guard"
"""The rule about threads that may exceed an array of unknown size."""
WHOLE = frozenset((".u32", ".s32", ".b32"))
"""The types of sizes and strides."""
OF_FORMS, SYNCHRONIZED, FIRST_TARGET = "deprecated-form", ".sync", 70
"""The rule about deprecated forms. From this target on, the participating lanes of a form without `.sync` are unspecified."""
MOST_NOTES = 3
"""Maximum number of notes in a verdict."""
OF_ADDRESSES = frozenset(("misaligned-access", "out-of-bounds-access"))
"""Rules about addresses: if these depend only on given inputs, the executions have covered them all."""


def agreed(module: Module, kernel: str, verdict: Verdict) -> Verdict:
    """The verdict, changed if `lint` knows more than the executions of the launch: to refuted if it confirms what they leave in doubt, or
    has numbers with which the launch goes wrong; from verified to undecided if it doubts what they do not show."""
    from ptxkit.analyses.linting.linting import lint
    from ptxkit.analyses.verify.verdict import UNDECIDED, VERIFIED

    @functools.cache
    def known() -> tuple[Diagnostic, ...]:
        found = lint(module, budget=SECONDS, only={kernel})
        return tuple([one for one in found if one.function == kernel and one.witness and one.severity is not Severity.INFO])

    verdict = _confirmed(verdict, known)
    if verdict.outcome == VERIFIED:
        verdict = _doubted(module, kernel, verdict)
    if verdict.outcome == UNDECIDED and verdict.executed.launch.has_numbers:
        verdict = _with_numbers(module, kernel, verdict, known())
    return verdict


Known = Callable[[], "tuple[Diagnostic, ...]"]
"""The findings of the kernel that `lint` has executed, notes left out."""


def _confirmed(verdict: Verdict, known: Known) -> Verdict:
    """The verdict, changed to refuted if executions of `lint` show that what this launch does wrong is not due to the inputs that were
    synthesized for it: `lint` believes a finding only once it has repeated it with other numbers, shapes and contents. One of which it says
    that contents decide must appear in this launch with all contents that were tried."""
    from ptxkit.analyses.verify.verdict import REFUTED

    doubtful = [*[reason.shown for reason in verdict.reasons if reason.shown is not None], *verdict.executed.set_aside]
    found = [one for one in doubtful if any(_is_same(one, of) for of in known())] if verdict.outcome != REFUTED and doubtful else []
    if not found:
        return verdict
    findings = (*found, *[one for one in verdict.findings if one not in found])
    said = "what refutes the kernel does not depend on what was synthesized: lint shows it with other numbers and contents, too"
    return attrs.evolve(verdict, outcome=REFUTED, findings=findings, reasons=(), assumptions=(*verdict.assumptions, said))


def _with_numbers(module: Module, kernel: str, verdict: Verdict, known: Sequence[Diagnostic]) -> Verdict:
    """The verdict on the launch with the numbers with which `lint` shows something, if that shows the same and refutes the kernel;
    otherwise the verdict as it is."""
    from ptxkit.analyses.execution.launch import Given, MadeUp
    from ptxkit.analyses.framework.routine import routines
    from ptxkit.analyses.verify.verdict import REFUTED
    from ptxkit.analyses.verify.verdict import verify as verified
    from ptxkit.cli._launching import names_of

    routine = next(one for one in routines(module) if one.name == kernel)
    declared = [one.name for one in routine.function.header.parameters]
    launch = verdict.executed.launch
    for one in known:
        numbers = (one.witness or {}).get("launch", {}).get("arguments", {})
        arguments, said = [], []
        for name, spoken, argument in zip(declared, names_of(module, routine), launch.arguments, strict=True):
            value = numbers.get(name)
            if isinstance(argument, MadeUp) and argument.made_up == "number" and isinstance(value, int):
                data = (value % (1 << 8 * argument.size)).to_bytes(argument.size, "little")
                argument = Given(functools.partial(bytes, data))
                said.append(f"`{spoken}` = {value}")
            arguments.append(argument)
        if not said:
            continue
        verdict.executed.code.reset()
        again = verified(verdict.executed.code, attrs.evolve(launch, arguments=tuple(arguments)), names_of(module, routine))
        again = _confirmed(again, lambda: tuple(known))
        if again.outcome == REFUTED and any(_is_same(shown, one) for shown in again.findings):
            return attrs.evolve(again, assumptions=(f"refuted with {', '.join(said)}, which lint has chosen", *again.assumptions))
    return verdict


def _is_same(shown: Shown, other: Diagnostic) -> bool:
    """Whether a finding of `lint` has the family of rules and the lines of one of the launch, and contents of memory do not decide it."""
    one = shown.finding.diagnostic
    return one.rule[:1] == other.rule[:1] and _lines(one) <= _lines(other) and (shown.is_always or _is_certain(other))


def _is_certain(one: Diagnostic) -> bool:
    """Whether a finding of `lint` is independent of contents of memory."""
    from ptxkit.analyses.dynamic.judging import CONTENTS

    return CONTENTS not in one.notes


def _lines(one: Diagnostic) -> set[int]:
    return {one.span.line, *[related.span.line for related in one.related]}


def _doubted(module: Module, kernel: str, verdict: Verdict) -> Verdict:
    """The verdict, changed from verified to undecided if `lint` reports something about the kernel that the executions have not settled.

    That holds for every error: some are visible only to `lint`, such as a fragment loaded with another shape than it is used with. It holds
    for a warning if part of the launch was synthesized, since another input may show it; if numbers were synthesized, also for an error
    that `lint` shows with its own numbers. Otherwise, warnings are listed as not covered, except those about addresses that were all
    observed. A note about missing bounds is a doubt if the arrays' sizes were synthesized, each thread works by itself, and no other number
    is read from which sizes may follow. Other notes concern what no execution can show: performance, or dead code.
    """
    from ptxkit.analyses.framework.rule import select
    from ptxkit.analyses.linting.linting import lint
    from ptxkit.analyses.verify.verdict import UNDECIDED, VERIFIED, Reason

    is_given = not verdict.assumptions
    rules = select(["ALL"])
    found = [one for one in lint(module, rules, run=verdict.executed.launch.has_numbers, budget=SECONDS) if one.function == kernel]
    if not verdict.executed.launch.has_numbers and not verdict.executed.depends:
        found = [one for one in found if one.severity is Severity.ERROR or one.name not in OF_ADDRESSES]
    is_unbounded = _has_unknown_bounds(module, kernel, verdict)
    doubts = [one for one in found if _is_doubt(module, one, is_given) or (one.name == OF_BOUNDS and is_unbounded)]
    reasons = tuple([Reason(_spoken(one), one.span.line, "" if is_given else verdict.example) for one in doubts])
    others = [f"{_spoken(one)} in line {one.span.line}" for one in found if one.severity is Severity.WARNING and one not in doubts]
    others += _notes([one for one in found if one.severity is Severity.INFO and one not in doubts and one.name != OF_BOUNDS])
    outcome = UNDECIDED if reasons else VERIFIED
    return attrs.evolve(verdict, outcome=outcome, reasons=reasons, not_covered=(*verdict.not_covered, *others))


def _notes(found: Sequence[Diagnostic]) -> list[str]:
    """The first notes as text, and the number of others."""
    said = [f"{_spoken(one)} in line {one.span.line}" for one in found[:MOST_NOTES]]
    return [*said, *([f"{len(found) - MOST_NOTES} more notes of lint"] if len(found) > MOST_NOTES else [])]


def _has_unknown_bounds(module: Module, kernel: str, verdict: Verdict) -> bool:
    """Whether arrays were synthesized, as large as their accesses, and nothing indicates the layout of their data: neither a number that is
    read, nor tiles that the threads of a CTA share."""
    from ptxkit.analyses.framework.routine import routines

    is_made_up = any(argument.made_up == "contents" for argument in verdict.executed.launch.arguments)
    if not is_made_up or (verdict.covered["shared"] and verdict.covered["barriers"]):
        return False
    routine = next(one for one in routines(module) if one.name == kernel)
    text = "".join([instruction.text for instruction in routine.instructions])
    numbers = [one.name for one in routine.function.header.parameters if one.type in WHOLE]
    return not any(re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", text) for name in numbers)


def _target(module: Module) -> int:
    """The number of the target: 80 for `sm_80`."""
    word = next((word for word in module.targets if word.startswith("sm_")), "sm_0")
    return int(re.sub(r"\D", "", word))


def _is_doubt(module: Module, one: Diagnostic, is_given: bool) -> bool:
    """Whether a finding of `lint` leaves the kernel's behavior open."""
    if one.severity is Severity.ERROR or is_given:
        return one.severity is Severity.ERROR
    if one.name == OF_FORMS and any(SYNCHRONIZED in note for note in one.notes):
        return _target(module) >= FIRST_TARGET
    return one.name in OF_THE_HARDWARE or (one.severity is Severity.WARNING and one.rule[0] != VERSIONS)


def _spoken(one: Diagnostic) -> str:
    kind = {Severity.ERROR: "an error", Severity.WARNING: "a warning"}.get(one.severity, "a note")
    return f"lint has {kind}: {one.message} ({one.rule})"
