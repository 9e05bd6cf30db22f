"""Trials of candidates: on the machine first, then by every analysis of the text."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit import fixing
from ptxkit.analyses.dynamic.once import LOCKSTEP, Ran, once
from ptxkit.analyses.execution.contents import COUNT, Contents
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.bindings import has_matching
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts
from ptxkit.analyses.inputs.example import Argument, Example, Map, Number, Structure
from ptxkit.analyses.inputs.launches import example, most_operations
from ptxkit.analyses.inputs.reached import reached
from ptxkit.analyses.inputs.shapes import Shape, declares_block
from ptxkit.analyses.linting.running import MOST_MEMORY, first_code
from ptxkit.diagnostics import Diagnostic, Edit, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.monitoring import Monitor
from ptxkit.rewriters.repairs.counting import GIVEN_UP, Counting, Judging
from ptxkit.rewriters.repairs.edits import Shift
from ptxkit.rewriters.repairs.looking import KeptFacts, Looking, Seen

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code

SCHEDULES: tuple[str | int, ...] = ("lockstep", "early", 1)
"""The schedules, besides the one that showed a finding, under which a repair is run; `early` if operations may be in flight."""
SECONDS = 10.0
"""Time limit of one run in seconds."""
PATIENCE = 4
"""A repaired run may take this many times the operations of a lint run."""

KEPT = 4
"""Number of edited texts whose facts are cached."""

UNSURE = "unsupported"
"""The kind of faults that say nothing about a kernel: an out-of-bounds access may be the fault of the example launch."""
UNFIT = "unfit"
"""The kind of faults that another launch may not have: an out-of-bounds access that depends on a shape, or on a dynamic shared memory
size, that was synthesized."""

WAITING = "MT"
"""Rule families that may report the same for one wait."""
Key = tuple[str, frozenset[int]]
"""A finding of a run in terms of the original text: its rule and lines."""


@frozen(eq=False)
class Run:
    """A run of a launch, with findings in terms of the original text."""

    found: dict[Key, Finding]
    fault: str
    """The kind of fault that ended it; empty if all threads ran to completion."""
    why: str
    memory: tuple[bytes, ...]
    executed: dict[int, float]
    """By line, the average number of times that a thread executes a synchronizing instruction."""
    depends: bool
    """Whether control flow or addresses depend on synthesized contents."""


@frozen
class Conditions:
    """The conditions of a run."""

    schedule: str | int
    contents: Contents = COUNT


class Trying:
    """The trials for one finding, compared with the behavior of the original text."""

    def __init__(self, looking: Looking, seen: Seen, finding: Diagnostic) -> None:
        self.looking = looking
        self.seen = seen
        self.finding = finding
        self.example = self._example()
        own = (finding.witness or {}).get("launch", {})
        self.schedule: str | int = own.get("seed", own.get("schedule", SCHEDULES[0]))
        """The schedule that showed the finding."""
        self._facts = functools.lru_cache(KEPT)(looking.facts)
        self._ran: dict[str, dict[Example, Ran]] = {seen.text: dict(seen.ran)}
        """By text, the runs under the default schedule."""
        self._known: dict[tuple[tuple[Edit, ...], Conditions, Example], Run | None] = {}
        self._line = seen.facts.index.line_column

    def _example(self) -> Example | None:
        """The launch that shows the finding; for a finding without execution, a launch of its kernel."""
        examples = self.seen.examples
        if self.finding.witness is None:
            own = examples.get(self.finding.function or "", ())
            return own[-1] if own else None
        launch = self.finding.witness.get("launch", {})
        own = examples.get(launch.get("kernel", self.finding.function), ())
        return next((one for one in own if _is_of(one, launch)), None)

    @property
    def kernel(self) -> str:
        """The kernel of the launch."""
        return self.example.kernel if self.example is not None else self.finding.function or ""

    @cached_property
    def schedules(self) -> tuple[str | int, ...]:
        """The schedule that showed the finding, and others that may differ."""
        own = [one for one in self.seen.facts.routines if one.name == self.kernel]
        flies = any(has_matching(routine, _is_in_flight) for one in own for routine in reached(one))
        return tuple(dict.fromkeys((self.schedule, *[one for one in SCHEDULES if flies or one != "early"])))

    def facts(self, edits: Sequence[Edit]) -> KeptFacts:
        """The facts of the edited text, cached for the last few."""
        return self._facts(fixing.apply(self.seen.text, edits)) if edits else self.seen.facts

    # --- on the machine

    def own(self, under: Conditions | None = None) -> Run | None:
        """The run of the original text, by default under the schedule that showed the finding."""
        return self.run((), under)

    def run(
        self,
        edits: Sequence[Edit],
        under: Conditions | None = None,
        among: Sequence[Example] = (),
        is_enough: Callable[[Set[Key]], bool] | None = None,
    ) -> Run | None:
        """The run of the edited text in the launch, or in the last of others; None if it cannot be run. A run stops as soon as its
        findings satisfy `is_enough`."""
        launched = among[-1] if among else self.example
        if launched is None:
            return None
        key = (tuple(edits), under or Conditions(self.schedule), launched)
        if key not in self._known:
            self._known[key] = self._run(*key, is_enough)
        return self._known[key]

    def _run(
        self, edits: Sequence[Edit], under: Conditions, launched: Example, is_enough: Callable[[Set[Key]], bool] | None = None
    ) -> Run | None:
        facts = self.facts(edits)
        kernel = next((one for one in facts.routines if one.name == launched.kernel), None)
        if kernel is None:
            return None
        counting, shift = Counting(), Shift(edits)
        usual = self._ran.setdefault(facts.index.text, {}) if under == Conditions(LOCKSTEP) else {}
        example = _with_boxes(launched, kernel)
        ran = usual.get(example)
        if ran is None:
            also: list[Monitor] = [counting]
            if is_enough is not None:
                also.append(Judging(lambda found: is_enough(self._keys(found, shift))))
            try:
                operations = most_operations(kernel) * (1 if under.schedule == self.schedule else PATIENCE)
                ran = once(_code(facts, kernel), example, under.contents, operations, SECONDS, under.schedule, keep=True, also=also)
            except (ValueError, MemoryError):
                return None
            if ran.fault is None or ran.fault.kind != GIVEN_UP:
                usual[example] = ran
        return self._judged(ran, kernel, shift, counting)

    def _judged(self, ran: Ran, kernel: Routine, shift: Shift, counting: Counting) -> Run:
        found, fault = self._found(ran, shift), ran.fault
        if fault is None:
            threads = math.prod(ran.example.grid) * math.prod(ran.example.block)
            executed = {line: count / threads for line, count in counting.lanes.items()}
            return Run(found, "", "", ran.memory, executed, bool(ran.depends))
        line = fault.diagnostic.span.line
        kind = fault.kind
        if kind == "address" and _is_too_small(ran):
            kind = UNFIT
        elif kind == "address" and not any(one.diagnostic.span.line == line for one in ran.wrong):
            kind = UNSURE
        elif kind == "address" and not declares_block(kernel, ran.example.block):
            kind = UNFIT
        return Run(found, kind, fault.reason, (), {}, bool(ran.depends))

    def _found(self, ran: Ran, shift: Shift) -> dict[Key, Finding]:
        found: dict[Key, Finding] = {}
        for one in ran.wrong:
            found.setdefault(self.key(one.diagnostic, shift), one)
        return found

    def _keys(self, found: Iterable[Finding], shift: Shift) -> set[Key]:
        """The keys of a run's findings, notes excluded."""
        return {self.key(one.diagnostic, shift) for one in found if one.diagnostic.severity is not Severity.INFO}

    def key(self, diagnostic: Diagnostic, shift: Shift | None = None) -> Key:
        """The key of a finding, in lines of the original text."""
        spans = (diagnostic.span, *[one.span for one in diagnostic.related])
        old = shift.old if shift is not None else int
        return diagnostic.name, frozenset([self._line(old(span.start))[0] for span in spans])

    # --- by everything

    def after(self, edits: Sequence[Edit]) -> Seen:
        """All findings of the edited text."""
        facts = self.facts(edits)
        return self.looking.of(facts, self._ran.get(facts.index.text))

    def left(self, after: Seen, edits: Sequence[Edit]) -> list[Diagnostic]:
        """The findings of an edited text that correspond to the finding itself, or are new."""
        shift = Shift(edits)
        others = [one for one in self.seen.found if not self._is_same(one)]
        known = [(one, self._lines(one)) for one in others]
        own = self._lines(self.finding)
        bad = []
        for one in after.found:
            line = self._line(shift.old(one.span.start))[0]
            same = any(one.rule == other.rule and line in lines and _is_no_worse(one, other) for other, lines in known)
            if same or (one.severity is Severity.INFO and (one.rule != self.finding.rule or line not in own)):
                continue
            bad.append(one)
        return bad

    def _is_same(self, one: Diagnostic) -> bool:
        """Whether a finding is this one, or an equivalent one: for the same instruction, of the same severity, and of a curable rule."""
        if one is self.finding:
            return True
        return one.span.line == self.finding.span.line and one.severity is not Severity.INFO and one.rule[0] in WAITING

    def _lines(self, one: Diagnostic) -> set[int]:
        return {one.span.line, *[related.span.line for related in one.related]}


def _code(facts: Facts, kernel: Routine) -> Code:
    """The module on a machine: the one of other runs, or a new one if these have used much memory. Raises ValueError."""
    code = first_code(facts, kernel)
    return code if code.machine.memory.size <= MOST_MEMORY else loaded(facts.module, facts.target or "")


def _is_too_small(ran: Ran) -> bool:
    """Whether a run exceeded the synthesized dynamic shared memory."""
    return ran.outside == ".shared" and bool(ran.example.shared)


def _is_in_flight(bound: Bound) -> bool:
    """Whether an instruction starts an asynchronous operation."""
    return bool(bound.asynchronous or bound.completes or any(one.is_async for one in bound.memory))


def _is_of(one: Example, launch: Mapping[str, Any]) -> bool:
    """Whether a launch is that of a witness: its shape, and its arguments."""
    given = launch.get("arguments", {})
    numbers = {name: number.value for name, number in one.arguments if isinstance(number, Number)}
    shape = [list(one.grid), list(one.block), list(one.cluster or ()) or None]
    said = [launch.get("grid"), launch.get("block"), launch.get("cluster") if one.cluster else None]
    return shape == said and all(given.get(name, value) == value for name, value in numbers.items())


def _with_boxes(one: Example, kernel: Routine) -> Example:
    """A launch with the tensor maps for an edited kernel: boxes are synthesized from the bytes that it announces."""
    if not any(_has_map(argument) for _, argument in one.arguments):
        return one
    made = dict(example(kernel, Shape(one.block, one.grid, one.cluster)).arguments)
    return attrs.evolve(one, arguments=tuple([(name, made[name] if _has_map(own) else own) for name, own in one.arguments]))


def _has_map(argument: Argument) -> bool:
    return isinstance(argument, Map) or (isinstance(argument, Structure) and any(isinstance(part, Map) for _, part in argument.parts))


def _is_no_worse(one: Diagnostic, other: Diagnostic) -> bool:
    order = list(Severity)
    return order.index(one.severity) >= order.index(other.severity)
