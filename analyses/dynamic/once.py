"""One run of an example launch under all monitors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.dynamic.until import ENOUGH, Until
from ptxkit.analyses.execution.contents import Contents
from ptxkit.analyses.execution.dependence import dependent
from ptxkit.analyses.execution.findings import fault_space, of_fault
from ptxkit.analyses.execution.leaving import BY_DESCRIPTOR, far_access
from ptxkit.analyses.execution.observing import Observer
from ptxkit.analyses.inputs.example import Example
from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine import Budget, Fault
from ptxkit.machine.fault import RULES
from ptxkit.machine.matrices.accuracy import rough_products
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors import monitors_of
from ptxkit.machine.monitors.addresses import OUTSIDE, WRONG_SPACE
from ptxkit.machine.monitors.deadlocks import CHANGE
from ptxkit.machine.monitors.mbarriers import REUSED
from ptxkit.machine.monitors.races import Races
from ptxkit.memo import collect_new

if TYPE_CHECKING:
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code


def is_ordered(bound: Bound) -> bool:
    """Whether an instruction reads with ordering semantics or performs an update, as accesses to flags do."""
    return any(one.order not in (None, "", "weak") and one.access != "write" for one in bound.memory)


LOCKSTEP = "lockstep"
"""The default schedule."""


Seen = tuple[str, frozenset[int]]


@frozen(eq=False)
class Ran:
    """Result of a run. `fault` is what ended it; None if all threads ran to completion."""

    example: Example
    findings: tuple[Finding, ...]
    fault: Fault | None
    observer: Observer = attrs.field(repr=False)
    code: Code = attrs.field(repr=False)
    limit: int = 0
    """How many operations the run was permitted."""
    memory: tuple[bytes, ...] = ()
    """Final contents of synthesized memory, if requested and if all threads ran to completion."""
    _known: dict[frozenset[str], set[int]] = attrs.field(factory=dict, init=False, repr=False)
    _seen: set[Seen] = attrs.field(factory=set, init=False, repr=False)

    def line_of(self, site: Any) -> int:
        """The line of an instruction."""
        return self.code.line(site.path)

    @property
    def bodies(self) -> tuple[Any, ...]:
        """The functions that were entered."""
        return tuple(self.observer.program.entered) if self.observer.program is not None else ()

    @property
    def lines(self) -> frozenset[int]:
        """Lines of the executed instructions that access memory or synchronize."""
        return frozenset([self.line_of(site) for body in self.bodies for site in body.sites.made if id(site) in self.observer.seen])

    @property
    def is_timed_out(self) -> bool:
        """Whether the run has used up its budget."""
        return self.fault is not None and self.fault.kind == "budget"

    @property
    def has_shown_enough(self) -> bool:
        """Whether the run has ended since it had shown what was asked about; what else it would have shown is unknown."""
        return self.fault is not None and self.fault.kind == ENOUGH

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that are not notes.

        Leaves out matrices that extend beyond their variable, as the instruction may use less than the whole layout, and threads that wait
        for memory that others may write. The first lines of a matrix are read in any case: they are left out only if the kernel has no
        shared memory, since then the host makes the descriptor.
        """
        loud = [one for one in self.findings if one.diagnostic.severity is not Severity.INFO]
        whole = [one for one in loud if not self.observer.first_lines or not one.witness.get("variable")]
        unsure = {one.diagnostic.span for one in whole if one.diagnostic.name == OUTSIDE[1] and self._is_matrix(one)}
        return tuple([one for one in loud if one.diagnostic.span not in unsure and not _waits_for_others(one)])

    @property
    def takes_mbarriers(self) -> bool:
        """Whether a matrix, as its descriptor defines it, includes an mbarrier: then it is longer than what the MMA is meant to read."""
        return any(one.diagnostic.name == REUSED[1] and self._is_matrix(one) for one in self.findings)

    def seen_as(self, name: Callable[[Finding], Seen]) -> set[Seen]:
        """Keys of the findings that are not notes, for comparison with other runs."""
        if not self._seen:
            self._seen.update(map(name, self.wrong))
        return self._seen

    def _lines_of(self, chapters: frozenset[str]) -> set[int]:
        """Lines of the instructions of these ISA chapters."""
        found = self._known.get(chapters)
        if found is None:
            found = self._known[chapters] = self._find_lines(chapters)
        return found

    def _find_lines(self, chapters: frozenset[str]) -> set[int]:
        sites = [site for body in self.bodies for site in body.sites]
        return {self.line_of(site) for site in sites if isinstance(site.bound, Bound) and site.bound.form.file in chapters}

    def _is_matrix(self, finding: Finding) -> bool:
        return finding.diagnostic.span.line in self._lines_of(BY_DESCRIPTOR)

    @property
    def outside(self) -> str:
        """The state space that the run accessed out of bounds; empty if none. An address of another state space leaves none."""
        for finding in self.findings:
            if finding.diagnostic.name == OUTSIDE[1]:
                return "." + str(finding.witness.get("space", "")).partition("::")[0]
        fault = self.fault
        if fault is None or any(one.diagnostic.name == WRONG_SPACE[1] for one in self.findings):
            return ""
        return fault_space(fault) if fault.why == "outside" else ""

    @property
    def far_access(self) -> tuple[int, int] | None:
        """Line and address of an access that left global memory and lies near no synthesized array; None if there is none."""
        return far_access(self.fault, self.observer.made)

    @property
    def depends(self) -> tuple[Any, ...]:
        """The instructions that depend on synthesized contents."""
        return self._dependent(self.observer.sources)

    @property
    def stores(self) -> tuple[Any, ...]:
        """The same, and the instructions that store values which depend on such contents."""
        return self._dependent(self.observer.sources, stores=True)

    @property
    def depends_on_data(self) -> tuple[Any, ...]:
        """The instructions that depend on synthesized contents that are read without ordering semantics, unlike flags."""
        return self._dependent(self._data)

    @property
    def addresses(self) -> tuple[Any, ...]:
        """The instructions whose addresses or membermasks depend on such contents."""
        return self._dependent(self.observer.sources, addresses=True)

    @property
    def by_tables(self) -> tuple[Any, ...]:
        """The instructions whose addresses are computed from such contents."""
        return self._dependent(self._data, direct=True)

    @property
    def _data(self) -> dict[int, Any]:
        return {key: site for key, site in self.observer.sources.items() if not is_ordered(site.bound)}

    @property
    def depends_on_presets(self) -> tuple[Any, ...]:
        """The instructions that depend on variables of the module that the host may have overwritten."""
        return self._dependent(self.observer.preset)

    def _dependent(
        self, sources: dict[int, Any], *, stores: bool = False, addresses: bool = False, direct: bool = False
    ) -> tuple[Any, ...]:
        program = self.observer.program
        return dependent(program, sources, stores=stores, addresses=addresses, direct=direct) if program is not None else ()


def _waits_for_others(finding: Finding) -> bool:
    """Whether threads wait for memory to change. The host or another GPU may write it; in an example launch neither does."""
    waiting = finding.witness.get("waiting", ())
    return finding.witness.get("ends") == "standstill" and any(one["for"] == CHANGE for one in waiting)


def once(
    code: Code,
    one: Example,
    contents: Contents,
    operations: int,
    seconds: float,
    schedule: str | int = LOCKSTEP,
    *,
    by_collectives: bool = False,
    keep: bool = False,
    also: Sequence[Monitor] = (),
    zeroed: Mapping[int, int] | None = None,
    lines: frozenset[int] | None = None,
    left_out: frozenset[str] = frozenset(),
    first_lines: bool = False,
    patience: int | None = None,
    is_enough: Callable[[tuple[Finding, ...]], bool] | None = None,
) -> Ran:
    """Executes a launch with the given contents of memory, within limits on operations and seconds, with further monitors in `also`.

    With `by_collectives`, warp collectives are taken to order memory accesses (`Races.by_collectives`). With `keep`, memory is read
    afterwards. `zeroed` are words, by address and size, that are initially zero for all contents. If `lines` is given, only races on these
    lines are reported. `left_out` are state spaces in which races are not looked for. `first_lines` and `patience` are those of `Observer`.
    The run ends once `is_enough` holds for its findings.
    """
    machine = code.machine
    code.reset()
    made: list[tuple[int, int]] = []
    observer = Observer(first_lines=first_lines)
    fault: Fault | None = None
    findings: tuple[Finding, ...] = ()
    memory: tuple[bytes, ...] = ()
    budget = Budget(seconds=seconds, operations=operations)
    monitors = monitors_of("all")
    ending = () if is_enough is None else (Until(is_enough),)
    for monitor in monitors:
        if isinstance(monitor, Races):
            monitor.by_collectives, monitor.lines, monitor.left_out = by_collectives, lines, left_out
    try:
        machine.memory.reserve(one.memory)
        arguments = [argument.make(machine, contents, n + 1, made) for n, (_, argument) in enumerate(one.arguments)]
        for address, size in (zeroed or {}).items():
            machine.write(address, bytes(size))
        observer = Observer(tuple(made), first_lines=first_lines, patience=patience)
        with rough_products():
            run = machine.launch(
                code,
                one.kernel,
                *arguments,
                grid=one.grid,
                block=one.block,
                cluster=one.cluster,
                shared=one.shared,
                cooperative=one.cooperative,
                schedule=schedule,
                budget=budget,
                monitors=(*ending, observer, *monitors, *also),
            )
        findings = run.findings
        memory = tuple([machine.read(start, end - start) for start, end in made]) if keep else ()
    except Fault as error:
        fault, findings = error.detached(), error.findings
    finally:
        for start, _ in made:
            machine.free_global(start)
        machine.memory.trim()
        collect_new()
    if fault is not None and fault.kind in RULES and fault.is_placed:
        findings = (*findings, of_fault(fault, one.launch, schedule))
    return Ran(one, findings, fault, observer, code, operations, memory)
