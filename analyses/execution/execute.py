"""A kernel run under monitors for one launch, as often as it takes: under several schedules where the order of threads or of what is in
flight may matter, with several contents where something depends on contents that were made up."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.execution.contents import CHOICES, Contents
from ptxkit.analyses.execution.dependence import dependent
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.observing import Observer
from ptxkit.diagnostics import Severity

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Module

SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1, 2)
"""The schedules that are tried where they may matter; the first always."""
LEAST_SECONDS = 0.05
"""A further run is begun only where so many seconds are left."""
UNKNOWN = frozenset(("unsupported", "extern", "call", "branch", "memory", "stack", "budget"))
"""Kinds of faults that say that the machine cannot go on, and nothing of the kernel."""
OF_LAUNCH = frozenset(("launch", "shared", "handle"))
"""Kinds of faults that say that this is no launch of the kernel."""


@attrs.frozen
class Ran:
    """One run: how, how long, and what ended it (None: all threads ran to completion)."""

    schedule: str | int
    contents: Contents
    seconds: float
    fault: Fault | None
    causes: frozenset[tuple[Any, ...]] = frozenset()
    """Those of its findings, the fault among them."""


@attrs.frozen
class Shown:
    """A finding, of all runs that showed it the first, with the schedule and contents of that run."""

    finding: Finding
    schedule: str | int
    contents: Contents
    is_always: bool
    """Whether it shows with all contents that were tried, under some schedule."""


@attrs.frozen
class Executed:
    """What came of the runs of a launch."""

    launch: Launch
    runs: tuple[Ran, ...]
    shown: tuple[Shown, ...]
    """What monitors found and what ended a run, one for each cause, errors first."""
    covered: Mapping[str, int]
    """`shared` and `global` accesses, `barriers` (threads that waited at one), `phases` of mbarriers, `copies` and other operations in
    flight, all of the first run; how many `schedules` and `contents` were tried."""
    not_covered: tuple[str, ...]
    """What was not looked at, or not executed, in words."""
    depends: tuple[Any, ...]
    """The instructions (`Site`s) whose path or address depends on contents that were made up; empty if none does."""
    instructions: int
    is_numbered: bool
    """Whether something depends on numbers that were made up: parameters that were not given."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What went wrong."""
        return tuple([one.finding for one in self.shown])

    @property
    def fault(self) -> Fault | None:
        """What ended the first run that did not run to completion."""
        return next((run.fault for run in self.runs if run.fault is not None), None)

    @property
    def is_complete(self) -> bool:
        """Whether every thread of every run ran to completion."""
        return self.fault is None


def execute(
    code: Code,
    launch: Launch,
    *,
    schedules: Sequence[str | int] = (),
    contents: Sequence[Contents] = (),
    checks: str | Sequence[str] = "all",
    budget: float = 10.0,
    progress: Callable[[Any], None] | None = None,
) -> Executed:
    """Runs a launch of a kernel of a module that was loaded (`loaded`), under the monitors that `checks` names, for `budget` seconds.

    The first run has the first schedule and the first contents. Others follow where they may show something else; `schedules` and
    `contents` name those to choose from, the usual ones if they are empty. Raises TypeError or ValueError for arguments that are not the
    kernel's.
    """
    return _Executing(code, launch, tuple(schedules) or SCHEDULES, tuple(contents) or CHOICES, checks, budget, progress).run()


def loaded(module: Module, target: str = "") -> Code:
    """A module on a machine of its own, of its target or that given. Raises ValueError if it has errors."""
    from ptxkit.machine import Machine

    return Machine(target or next((word for word in module.targets if word.startswith("sm_")), "sm_90a")).load(module)


class _Executing:
    """The runs of a launch, one after the other."""

    def __init__(
        self,
        code: Code,
        launch: Launch,
        schedules: tuple[str | int, ...],
        contents: tuple[Contents, ...],
        checks: str | Sequence[str],
        budget: float,
        progress: Callable[[Any], None] | None,
    ) -> None:
        self.code = code
        self.launch = launch
        self.schedules = schedules
        self.contents = contents
        self.checks = checks
        self.progress = progress
        self.end = time.perf_counter() + budget
        self.runs: list[Ran] = []
        self.first: dict[tuple[Any, ...], tuple[Finding, str | int, Contents]] = {}
        self.not_covered: dict[str, None] = {}
        self.skipped = 0

    def run(self) -> Executed:
        observer, instructions, depends = self._once(self.schedules[0], self.contents[0])
        has_numbers = any(argument.made_up == "number" for argument in self.launch.arguments)
        choices = list(self.contents[1:]) if depends or has_numbers else []
        if not depends:
            # what memory holds does not matter, and only numbers that were not given are changed
            choices = [one for one in choices if one.scale != 1][:1]
        later = self.schedules[1:] if observer.depends_on_order else ()
        if self._is_known:
            for schedule in later:
                self._again(schedule, self.contents[0])
            for choice in choices:
                self._again(self.schedules[0], choice)
        if self.skipped:
            self._leave_out(f"{self.skipped} more runs, under other schedules or with other contents: time is up")
        covered = {
            "shared": observer.shared,
            "global": observer.globals,
            "barriers": observer.barriers,
            "phases": observer.phases,
            "copies": observer.copies,
            "schedules": len({run.schedule for run in self.runs}),
            "contents": len({run.contents for run in self.runs}),
        }
        return Executed(self.launch, tuple(self.runs), self._shown(), covered, tuple(self.not_covered), depends, instructions, has_numbers)

    @property
    def _is_known(self) -> bool:
        """Whether the machine could execute what it came to: else further runs come to the same end."""
        fault = self.runs[0].fault
        return fault is None or fault.kind not in UNKNOWN | OF_LAUNCH

    def _again(self, schedule: str | int, contents: Contents) -> None:
        left = self.end - time.perf_counter()
        if left < max(LEAST_SECONDS, self.runs[0].seconds):
            self.skipped += 1
            return
        self._once(schedule, contents)

    def _once(self, schedule: str | int, contents: Contents) -> tuple[Observer, int, tuple[Any, ...]]:
        from ptxkit.machine import Fault
        from ptxkit.machine.monitors import monitors_of

        machine = self.code.machine
        if self.runs:
            self.code.reset()
        arguments: list[Any] = []
        made: list[tuple[int, int]] = []
        for number, argument in enumerate(self.launch.arguments):
            given, own = argument.argument(machine, contents, number)
            arguments.append(given)
            made += own
        observer = Observer(tuple(made))
        monitors = (observer, *monitors_of(self.checks))
        begun = time.perf_counter()
        one = self.launch
        fault: Fault | None = None
        instructions = 0
        findings: tuple[Finding, ...] = ()
        try:
            run = machine.launch(
                self.code,
                one.kernel,
                *arguments,
                grid=one.grid,
                block=one.block,
                cluster=one.cluster,
                shared=one.shared,
                schedule=schedule,
                budget=max(LEAST_SECONDS, self.end - begun),
                monitors=monitors,
                progress=self.progress,
            )
            findings, instructions = run.findings, run.instructions
        except Fault as error:
            fault, findings = error, error.findings
        finally:
            for start, _ in made:
                machine.free_global(start)
        seconds = time.perf_counter() - begun
        for monitor in monitors:
            self._ask(monitor)
        causes = set()
        for finding in findings:
            cause = cause_of(finding)
            causes.add(cause)
            self.first.setdefault(cause, (finding, schedule, contents))
        if fault is not None and fault.kind not in UNKNOWN | OF_LAUNCH and not _is_told(fault, findings):
            finding = of_fault(fault, self.launch, schedule)
            causes.add(cause_of(finding))
            self.first.setdefault(cause_of(finding), (finding, schedule, contents))
        self.runs.append(Ran(schedule, contents, seconds, fault, frozenset(causes)))
        return observer, instructions, dependent(observer.program, observer.sources) if not self.runs[1:] else ()

    def _ask(self, monitor: Any) -> None:
        """What a monitor says it has not looked at."""
        unwatched, unchecked = getattr(monitor, "unwatched", 0), getattr(monitor, "unchecked", 0)
        name = type(monitor).__name__.lower()
        if unwatched:
            self._leave_out(f"{name}: {unwatched} accesses were not watched")
        if unchecked:
            self._leave_out(f"{name}: {unchecked} pairs of accesses were too many to compare")

    def _leave_out(self, what: str) -> None:
        self.not_covered.setdefault(what)

    def _shown(self) -> tuple[Shown, ...]:
        tried = {run.contents for run in self.runs}
        found = []
        for cause, (finding, schedule, contents) in self.first.items():
            with_it = {run.contents for run in self.runs if cause in run.causes}
            found.append(Shown(finding, schedule, contents, with_it == tried))
        order = list(Severity)
        return tuple(sorted(found, key=lambda one: order.index(one.finding.diagnostic.severity)))


def cause_of(finding: Finding) -> tuple[Any, ...]:
    """What makes two findings one: the rule, the instruction, and the related ones."""
    diagnostic = finding.diagnostic
    return diagnostic.name, diagnostic.span, tuple([related.span for related in diagnostic.related])


def _is_told(fault: Fault, findings: Sequence[Finding]) -> bool:
    """Whether a finding of a monitor says why a run ended: at the same instruction, or of threads that wait for ever."""
    span = fault.diagnostic.span
    wrong = [one.diagnostic for one in findings if one.diagnostic.severity is Severity.ERROR]
    if fault.kind in ("deadlock", "budget"):
        return any("deadlock" in one.name or one.span == span for one in wrong)
    return any(one.span == span for one in wrong)


def of_fault(fault: Fault, launch: Launch, schedule: str | int) -> Finding:
    """What ended a run as a finding: its witness are the threads that could not go on."""
    from ptxkit.machine.findings import Finding

    accesses = [{"cta": list(cta), "thread": list(thread), "line": fault.line, "kind": fault.kind} for cta, thread in fault.threads]
    shape: dict[str, Any] = {"kernel": launch.kernel, "grid": list(launch.grid), "block": list(launch.block)}
    if launch.cluster is not None:
        shape["cluster"] = list(launch.cluster)
    if launch.shared:
        shape["shared"] = launch.shared
    shape["seed" if isinstance(schedule, int) else "schedule"] = schedule
    return Finding(fault.diagnostic, {"accesses": accesses, "launch": shape}, max(1, fault.count))
