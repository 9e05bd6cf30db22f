"""Results of the runs of a launch: of one run, of an attempt (all runs with one choice of scalars), and of all attempts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.execution.contents import DIFFERENT, Contents, Numbers
from ptxkit.analyses.execution.dependence import dependent
from ptxkit.analyses.execution.findings import UNKNOWN, are_about, is_about, is_of_stores
from ptxkit.analyses.execution.launch import Launch
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.execution.sides import Reached
from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.syntax import Path


@frozen
class Ran:
    """One run. `fault` is what ended it; None if all threads ran to completion."""

    schedule: str | int
    contents: Contents
    seconds: float
    fault: Fault | None
    causes: frozenset[tuple[Any, ...]] = frozenset()
    """Causes of its findings, including the fault."""
    result: bytes = b""
    """As `Once.result`."""

    @property
    def is_too_long(self) -> bool:
        """Whether the run exceeded its budget."""
        return self.fault is not None and self.fault.kind == "budget"


@frozen
class Shown:
    """A finding, with the schedule and contents of the first run that showed it."""

    finding: Finding
    schedule: str | int
    contents: Contents
    is_always: bool
    """Whether it appears with the first scalars for all contents, under some schedule, and there was time to try all contents."""
    states: tuple[str, ...] = ()
    """Variables of the module that the host would have to write for it; empty if it appears without that."""
    is_of_equal_words: bool = False
    """Whether it is about two stores whose addresses come from synthesized contents, and does not appear if all words of these differ."""
    kinds: frozenset[str] = frozenset()
    """The kinds of contents for which it appears with the first scalars; empty if there was no time to try all contents."""


@frozen
class Executed:
    """Result of all runs of a launch."""

    launch: Launch
    runs: tuple[Ran, ...]
    shown: tuple[Shown, ...]
    """Findings of monitors and faults, one for each cause, the most severe first."""
    covered: Mapping[str, int]
    """Counts from the first run: `shared` and `global` accesses, `barriers` (threads that waited at one), `phases` of mbarriers,
    `copies` and other asynchronous operations; `stood_for`: CTAs represented by another one in shared memory. Also how many `schedules`
    and `contents` were tried."""
    not_covered: tuple[str, ...]
    """Descriptions of what was not checked or not executed."""
    depends: tuple[Any, ...]
    """The instructions (`Site`s) whose execution or address depends on synthesized contents; empty if none does."""
    placed: tuple[Any, ...]
    """The instructions whose address depends on synthesized contents; computed only if there are findings."""
    numbered: tuple[Any, ...]
    """As `depends`, for synthesized scalars; computed only if there are findings."""
    instructions: int
    unexecuted: tuple[Any, ...]
    """The instructions that write memory or synchronize and that no attempt executed."""
    code: Code
    unknown: tuple[str, ...] = ()
    """The undefined functions that were called; their results were synthesized."""
    not_together: tuple[Numbers, ...] = ()
    """Scalars that led to an error at an address computed from them, and are therefore taken to be inconsistent."""
    unfit: tuple[str, ...] = ()
    """Descriptions of contents for which a run timed out or left memory of unknown size, although other contents ran to completion."""
    states: tuple[str, ...] = ()
    """Variables of the module that were also tried with other values, as the host may have written them."""
    is_by_numbers: bool = False
    """Whether synthesized scalars may be the reason that some instruction was not executed."""
    layouts: tuple[Finding, ...] = ()
    """Findings about matrices that extend beyond shared memory, as their descriptors define them. If there are any, only the first rows
    of each such matrix were read."""
    deciding: Mapping[int, int] = {}
    """Arguments whose synthesized contents decide which path threads take or which address they access, by index (variables of the module
    follow the arguments); and how many bytes of each the kernel reads."""
    deciding_numbers: tuple[int, ...] = ()
    """Arguments whose synthesized scalars decide which path threads take, by index; known only if something was not executed."""
    differing: tuple[str | int, ...] = ()
    """Schedules under which memory ends with other contents than under the first one, though no atomics and no clocks explain that."""
    cleared: tuple[int, ...] = ()
    """Arguments through which threads synchronize, and whose memory therefore held zeros at first, by index."""
    unreached: tuple[Path, ...] = ()
    """The instructions that write memory or synchronize, and that none of the contents tried lead to."""
    is_protocol_open: bool = False
    """Whether there is other synthesized memory through which threads synchronize."""
    untaken: tuple[Path, ...] = ()
    """The branches that synthesized scalars decide, and of which no attempt took both sides."""
    set_aside: tuple[Shown, ...] = ()
    """Findings with the scalars in `not_together`, which are no evidence by themselves."""

    def is_among(self, finding: Finding, sites: Sequence[Any]) -> bool:
        """Whether the finding is about memory that one of these instructions accesses."""
        return is_about(self.code, finding, sites)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings."""
        return tuple([one.finding for one in self.shown])

    @property
    def fault(self) -> Fault | None:
        """The fault of the first run that did not run to completion."""
        return next((run.fault for run in self.runs if run.fault is not None), None)

    @property
    def is_complete(self) -> bool:
        """Whether every thread of every run ran to completion."""
        return self.fault is None


@frozen(eq=False)
class Attempt:
    """All runs with one choice of scalars."""

    runs: tuple[Ran, ...]
    first: Mapping[tuple[Any, ...], tuple[Finding, str | int, Contents]]
    observer: Observer
    depends: tuple[Any, ...]
    instructions: int
    unseen: Mapping[Path, Any]
    """The instructions that write memory or synchronize and were not executed, by path."""
    not_covered: Mapping[str, None]
    is_cut: bool
    """Whether there was no time to try all contents."""
    starts: Mapping[int, int]
    """As `Once.starts`."""
    reached: frozenset[Reached] = frozenset()
    """The instructions that were executed, and the sides of branches that were taken."""
    states: tuple[str, ...] = ()
    """Variables of the module that held other values than the module gives them."""

    @property
    def differing(self) -> tuple[str | int, ...]:
        """The schedules under which memory ends with other contents than in the first run."""
        first = self.runs[0]
        again = [run for run in self.runs[1:] if run.contents == first.contents and run.result]
        return tuple([run.schedule for run in again if first.result and run.result != first.result])

    def is_of_equal_words(self, code: Code, cause: tuple[Any, ...]) -> bool:
        """Whether a finding is about two stores at addresses from synthesized contents, and appears only if words of these are equal."""
        if not is_of_stores(self.first[cause][0]):
            return False
        runs = [run for run in self.runs if run.contents.name in DIFFERENT]
        if any(run.fault is not None or cause in run.causes for run in runs) or {run.contents.name for run in runs} != set(DIFFERENT):
            return False
        sites = dependent(self.observer.program, self.observer.sources, addresses=True)
        return are_about(code, self.first[cause][0], sites)


def shown(code: Code, attempts: Sequence[Attempt]) -> tuple[Shown, ...]:
    """The findings of all attempts, one for each cause, the most severe first."""
    found: dict[tuple[Any, ...], Shown] = {}
    by_words: dict[tuple[Any, ...], bool] = {}
    for n, one in enumerate(attempts):
        # a run that the machine could not continue is evidence only for what it found
        tried = {run.contents for run in one.runs if run.causes or run.fault is None or run.fault.kind not in UNKNOWN}
        for cause, (finding, schedule, contents) in one.first.items():
            showing = {run.contents for run in one.runs if cause in run.causes} if n == 0 and not one.is_cut else set()
            is_always = bool(showing) and showing == tried
            by_words[cause] = by_words.get(cause, True) and one.is_of_equal_words(code, cause)
            known = found.get(cause)
            if known is None or (is_always and not known.is_always):
                kinds = frozenset([each.name for each in showing])
                found[cause] = Shown(finding, schedule, contents, is_always, one.states, kinds=kinds)
    order = list(Severity)
    every = [attrs.evolve(one, is_of_equal_words=by_words[cause]) for cause, one in found.items()]
    return tuple(sorted(every, key=lambda one: order.index(one.finding.diagnostic.severity)))
