"""The verdict of `ptxkit gate`: check, compiler, given launches, and lint, in one process and within a time budget."""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ptxkit.analyses.execution.findings import NO_LAUNCH
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework import linting
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.linting.linting import lint
from ptxkit.analyses.linting.running import Shown, is_executable
from ptxkit.analyses.verify.verdict import REFUTED, VERIFIED, Verdict, is_wrong, verify
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.origins import with_origins
from ptxkit.revalidation import Outcome, Resources, revalidate
from ptxkit.revalidation import Verdict as Compiled
from ptxkit.revalidation.chain import VALIDATORS
from ptxkit.syntax import Index, Module

ACCEPT, REJECT, UNDECIDED = "accept", "reject", "undecided"
BUDGET = 60.0
"""Default time budget in seconds, for all steps."""
COMPILER_SHARE = 0.5
"""The fraction of the remaining time that the compiler may use."""
LEAST_SECONDS = 0.05
"""A step is started only if at least this many seconds are left."""
NO_TIME = "no time was left"


class Certainty(enum.StrEnum):
    """The certainty of a finding, in the order in which findings are listed."""

    REFUSED = "refused"
    """The grammar, the instruction set or a compiler rejects the text."""
    SHOWN = "shown"
    """An execution shows it, and is its witness."""
    PROVED = "proved"
    """A rule proves it."""
    LIKELY = "likely"
    """An execution shows it, but depends on example inputs."""
    ARGUED = "argued"
    """A rule reports it without execution."""
    NOTE = "note"
    """It is not necessarily wrong."""


DECISIVE = (Certainty.REFUSED, Certainty.SHOWN, Certainty.PROVED)
"""The certainties that reject a module."""


@frozen
class Finding:
    """A finding, its certainty, and its source: `check`, `lint`, `verify`, or the name of a compiler."""

    certainty: Certainty
    by: str
    diagnostic: Diagnostic

    def as_json(self) -> dict[str, Any]:
        """The finding as in `ptxkit lint --format json`, with these two fields."""
        return {"certainty": self.certainty.value, "by": self.by, **self.diagnostic.as_json()}


@frozen
class Reason:
    """Why a module is undecided: what is missing, for which kernel (None: for none), where (line 0: nowhere), and how to supply it."""

    text: str
    kernel: str | None = None
    line: int = 0
    example: str = ""


@frozen
class Step:
    """A step, and why it was skipped (empty if it was not)."""

    name: str
    seconds: float
    skipped: str = ""


@frozen
class Launched:
    """A given launch, with its verdict from `verify`."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    verdict: Verdict


@frozen
class Gate:
    """The verdict on a module."""

    verdict: str
    """`accept`, `reject` or `undecided`."""
    findings: tuple[Finding, ...]
    """Most certain first, then in the order of the file."""
    reasons: tuple[Reason, ...]
    """Why it is undecided; otherwise empty."""
    launches: tuple[Launched, ...]
    steps: tuple[Step, ...]
    resources: tuple[Resources, ...]
    """The resource usage of the kernels, if a compiler reported it."""
    seconds: float
    budget: float

    @property
    def is_accepted(self) -> bool:
        """Whether the module is accepted."""
        return self.verdict == ACCEPT

    def as_json(self) -> dict[str, Any]:
        """The verdict as in the output of `ptxkit gate`, version 1."""
        return {
            "version": 1,
            "verdict": self.verdict,
            "findings": [one.as_json() for one in self.findings],
            "reasons": [attrs.asdict(one) for one in self.reasons],
            "launches": [
                {
                    "kernel": one.kernel,
                    "grid": list(one.grid),
                    "block": list(one.block),
                    "outcome": one.verdict.outcome,
                    "covered": dict(one.verdict.covered),
                    "not_covered": list(one.verdict.not_covered),
                    "assumptions": list(one.verdict.assumptions),
                }
                for one in self.launches
            ],
            "steps": [
                {"step": one.name, "seconds": round(one.seconds, 3), **({"not_done": one.skipped} if one.skipped else {})}
                for one in self.steps
            ],
            "resources": [attrs.asdict(one) for one in self.resources],
            "seconds": round(self.seconds, 3),
            "budget": self.budget,
        }


class NotALaunch(ValueError):
    """A launch that is impossible for its kernel."""


def gate(
    module: Module,
    launches: Sequence[tuple[Launch, Sequence[str]]] = (),
    *,
    budget: float = BUDGET,
    target: str | None = None,
    using: Sequence[str] = VALIDATORS,
) -> Gate:
    """The verdict on a module and launches of its kernels, each with the names of the kernel's parameters. `budget` is in seconds.

    `target` overrides the GPU that the module names; `using` lists the compilers to ask, if available. Raises NotALaunch, or TypeError or
    ValueError for arguments that do not match the kernel's.
    """
    return _Gating(module, tuple(launches), budget, target, tuple(using)).run()


class _Gating:
    """The steps, in order."""

    def __init__(
        self,
        module: Module,
        launches: tuple[tuple[Launch, Sequence[str]], ...],
        budget: float,
        target: str | None,
        using: tuple[str, ...],
    ) -> None:
        self.module = module
        self.launches = launches
        self.budget = budget
        self.target = target
        self.using = using
        self.begun = time.perf_counter()
        self.findings: list[Finding] = []
        self.reasons: list[Reason] = []
        self.launched: list[Launched] = []
        self.steps: list[Step] = []
        self.resources: tuple[Resources, ...] = ()

    def run(self) -> Gate:
        self._step("check", self._check)
        refused = bool(self.findings)
        self._step("validate", self._validate)
        if refused:
            self.steps += [Step(name, 0.0, "the module is refused") for name in ("verify", "lint")]
        else:
            self._step("verify", self._verify)
            self._step("lint", self._lint)
        order = {certainty: n for n, certainty in enumerate(Certainty)}
        self.findings.sort(key=lambda one: (order[one.certainty], one.diagnostic.span.start))
        is_rejected = any(one.certainty in DECISIVE for one in self.findings)
        verdict = REJECT if is_rejected else UNDECIDED if self.reasons else ACCEPT
        return Gate(
            verdict,
            tuple(self.findings),
            () if is_rejected else tuple(self.reasons),
            tuple(self.launched),
            tuple(self.steps),
            self.resources,
            time.perf_counter() - self.begun,
            self.budget,
        )

    @property
    def _left(self) -> float:
        return self.budget - (time.perf_counter() - self.begun)

    def _step(self, name: str, do: Callable[[], str]) -> None:
        """Runs a step, which returns the reason if it was skipped. Without time left for it, the module is undecided."""
        begun = time.perf_counter()
        if self._left < LEAST_SECONDS:
            self.steps.append(Step(name, 0.0, NO_TIME))
            self.reasons.append(Reason(f"{name}: {NO_TIME}", example=_more(self.budget)))
            return
        skipped = do()
        self.steps.append(Step(name, time.perf_counter() - begun, skipped))

    def _check(self) -> str:
        """What an assembler would reject."""
        rules = [rule for rule in select(["E", "V"]) if rule.severity is Severity.ERROR]
        found = linting.lint(self.module, rules, self.target, ignores=False)
        self.findings += [Finding(Certainty.REFUSED, "check", one) for one in found if one.severity is Severity.ERROR]
        if not any(kernel.body for kernel in self.module.kernels):
            self.reasons.append(Reason("the module has no kernel"))
        return ""

    def _validate(self) -> str:
        """The verdict of a compiler, if available."""
        said = revalidate(self.module, self.target, self.using, max(LEAST_SECONDS, COMPILER_SHARE * self._left))
        self.resources = said.resources
        if said.outcome is Outcome.UNAVAILABLE:
            skipped = [f"{one.validator}: {one.reason}" for one in said.skipped]
            return "; ".join(["no compiler could be asked", *skipped])
        if said.outcome is Outcome.COMPILER_BUG:
            self.reasons.append(Reason(f"{said.validator} failed: {said.reason}", example=_more(self.budget)))
        by = said.validator or "compiler"
        self.findings += [Finding(self._of_compiler(said, one), by, one) for one in said.diagnostics]
        if said.outcome is Outcome.INVALID and not any(one.certainty is Certainty.REFUSED for one in self.findings):
            self.reasons.append(Reason(f"{by} refuses the module and does not say where"))
        return ""

    def _of_compiler(self, said: Compiled, one: Diagnostic) -> Certainty:
        if said.outcome is Outcome.INVALID and one.severity is Severity.ERROR:
            return Certainty.REFUSED
        return Certainty.ARGUED if one.severity is not Severity.INFO else Certainty.NOTE

    def _verify(self) -> str:
        """The given launches."""
        given = {launch.kernel for launch, _ in self.launches}
        for kernel in self.module.kernels:
            if kernel.body and kernel.name not in given:
                self.reasons.append(Reason("no launch was given for it", kernel.name, example="--launch launch.toml"))
        if not self.launches:
            return "no launch was given"
        code = loaded(self.module, self.target or "")
        for number, (launch, names) in enumerate(self.launches):
            left = self._left
            if left < LEAST_SECONDS:
                self.reasons.append(Reason(f"launch {number + 1}: {NO_TIME}", launch.kernel, example=_more(self.budget)))
                continue
            if number:
                code.reset()
            found = verify(code, launch, names, left / (len(self.launches) - number))
            fault = found.executed.fault
            if fault is not None and fault.kind in NO_LAUNCH:
                raise NotALaunch(f"{launch.kernel}: {fault.reason}")
            self.launched.append(Launched(launch.kernel, launch.grid, launch.block, found))
            if found.outcome not in (VERIFIED, REFUTED):
                self.reasons += [Reason(one.text, launch.kernel, one.line, one.example) for one in found.reasons]
        return ""

    def _lint(self) -> str:
        """Runs the rules, which share information with the executed launches. Kernels without a launch are executed with synthesized
        ones."""
        rules = select()
        executed = {rule.id for rule in rules if is_executable(rule)}
        verified = [self._shown(one) for one in self.launched]
        also = [attrs.evolve(one, findings=tuple([each for each in one.findings if each.rule in executed])) for one in verified]
        found = lint(self.module, rules, self.target, also=also, budget=self._left)
        self.findings += [Finding(self._of_lint(one), "verify" if _is_of_launch(one) else "lint", one) for one in found]
        self.findings += [self._of_verify(one) for each in verified for one in each.findings if one.rule not in executed]
        return ""

    def _shown(self, one: Launched) -> Shown:
        """The results of a launch for lint: errors are findings that do not depend on example inputs."""
        verdict = one.verdict
        is_refuted = verdict.outcome == REFUTED
        found = [
            attrs.evolve(
                shown.finding.diagnostic,
                severity=_severity(shown.finding, is_refuted),
                witness={**shown.finding.witness, "schedule": shown.schedule},
            )
            for shown in verdict.findings
        ]
        found = list(with_origins(self.module, Index(self.module), found)) if found else []
        routine = next(routine for routine in routines(self.module) if routine.name == one.kernel)
        functions = frozenset([each.name for each in reached(routine)])
        return Shown(one.kernel, functions, tuple(found), verdict.executed.is_complete)

    def _of_verify(self, one: Diagnostic) -> Finding:
        return Finding(self._of_lint(one), "verify", one)

    def _of_lint(self, one: Diagnostic) -> Certainty:
        if one.severity is Severity.INFO:
            return Certainty.NOTE
        if one.severity is Severity.ERROR:
            return Certainty.SHOWN if one.witness is not None else Certainty.PROVED
        return Certainty.LIKELY if one.witness is not None else Certainty.ARGUED


def _severity(found: Any, is_refuted: bool) -> Severity:
    """Notes stay notes. What refutes a launch is an error; what may be due to example inputs is a warning."""
    if not is_wrong(found):
        return Severity.INFO
    return Severity.ERROR if is_refuted else Severity.WARNING


def _is_of_launch(one: Diagnostic) -> bool:
    """Whether a finding belongs to a given launch: those of lint name their inputs."""
    return one.witness is not None and "inputs" not in one.witness


def _more(budget: float) -> str:
    return f"--budget {budget * 4:g}"


__all__ = ["ACCEPT", "BUDGET", "REJECT", "UNDECIDED", "Certainty", "Finding", "Gate", "Launched", "NotALaunch", "Reason", "Step", "gate"]
