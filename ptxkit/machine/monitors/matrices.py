"""Registers of MMAs in flight (ISA 9.7.16.7, 9.1: 9.7.16.8): premature uses, and missing `wgmma.fence`s.

A wgmma uses its accumulators and the registers of A from its instruction until its group has been waited for, and a `tcgen05.ld` its
results until `tcgen05.wait::ld`. Between a write to registers and a wgmma that uses them there must be a `wgmma.fence`, except that wgmmas
of the same shape can follow each other on the same accumulators. Constants and copies that compilers insert between fence and wgmma are not
counted. The element layout of `wmma` fragments is unspecified, so a fragment must be read as the same kind as it was created (9.7.15.3.5).

Covers W001 to W005 and T003, tensor memory that is not deallocated (T001) or that only one CTA of a pair allocates (T002), and fragments
(F001 to F004).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.diagnostics import Diagnostic, Related, Severity
from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Fragment
from ptxkit.machine.asynchronous.arguments import named
from ptxkit.machine.findings import Finding, launch_as_json
from ptxkit.machine.matrices.tensor_memory import LANE_BITS, LANES
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.naming import Names, Side
from ptxkit.machine.monitors.tensor_waits import WAITS
from ptxkit.machine.plans import bits, is_copy
from ptxkit.machine.values.distinct import are_among, distinct_numbers
from ptxkit.syntax import Name, Vector

if TYPE_CHECKING:
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.groups import Lanes
    from ptxkit.machine.interfaces import Launch, Residents

Array = np.ndarray[Any, Any]
WARP = 32
WGMMA, FENCE = "wgmma", "wgmma-fence"
COPIES = "copies a register in flight, as compilers do: by the ISA, the wait must come first"
FIRST_LANES = "gives other warps the first 32 lanes of tensor memory, as programs do: by the ISA, each must name its own"
"""What the ISA forbids (9.1: 9.7.16.8) and programs in use do."""
RULES = {
    "F001": "wmma-shape-mismatch",
    "F002": "wmma-layout-mismatch",
    "F003": "wmma-type-mismatch",
    "F004": "wmma-fragment-role-mismatch",
    "T001": "tmem-not-deallocated",
    "T002": "tmem-alloc-after-relinquish",
    "T003": "tmem-load-not-waited",
    "W001": "wgmma-fence-missing",
    "W002": "wgmma-register-without-fence",
    "W003": "wgmma-accumulator-in-flight",
    "W004": "wgmma-wait-too-weak",
    "W005": "wgmma-uncommitted-at-wait",
}


_MATRICES = {"a": "matrix A", "b": "matrix B", "c": "an accumulator"}


@define(eq=False)
class _Operation:
    """An operation in flight: for each thread its group, and how often the thread had waited when it started it."""

    site: Site
    queue: str
    places: Array
    group: Array
    waits: Array


class _Registers:
    """The registers of one function that operations use: one row each, with a column for each resident thread."""

    def __init__(self, body: Body, threads: int) -> None:
        self.row = {number: row for row, number in enumerate(bits(body.held))}
        count = len(self.row)
        self.holder = np.zeros((count, threads), np.int32)
        """The number of the operation in flight that uses it; 0 if none does."""
        self.written = np.zeros((count, threads), bool)
        """Whether it was written since the last fence."""
        self.fragment = np.zeros((count, threads), np.int16)
        """The number of the fragment that it belongs to; 0 if unknown or none."""
        self.shape = np.zeros((count, threads), np.int16)
        """The shape of the wgmma that wrote it since the last fence; 0 if none did."""

    def rows(self, mask: int) -> Array:
        return np.array([self.row[number] for number in bits(mask)], np.int64)

    def of(self, numbers: tuple[int, ...]) -> Array:
        return np.array([self.row[number] for number in numbers], np.int64)


class Matrices(Monitor):
    """Monitors registers of MMAs, and tensor memory."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.operations = 0
        self._left_out: dict[str, int] = {}
        """What is no finding although the ISA forbids it, each with its first line."""
        self._found: dict[tuple[str, int], int] = {}

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.names = Names(launch)
        self._sites: dict[int, Site] = {}
        self._fragments: dict[tuple[Fragment, int], int] = {}
        self._makers: list[tuple[Fragment, Site]] = []

    def resident(self, residents: Residents) -> None:
        self.residents = residents
        self.of: dict[int, _Registers] = {}
        self.flights: dict[int, _Operation] = {}
        self.shapes: dict[str, int] = {}
        self.commits = np.zeros(residents.count, np.int64)
        self.waited = np.zeros(residents.count, np.int64)
        self.fenced = np.zeros(residents.count, bool)
        self.fresh = np.zeros(residents.count, bool)
        """Whether there was a fence since the last commit."""
        self.allocated: dict[int, tuple[Site, int]] = {}
        self.of_pairs: Counter[int] = Counter()
        """How often each CTA has allocated for a pair."""

    @property
    def left_out(self) -> list[str]:
        """What is no finding although the ISA forbids it."""
        return [f"line {line} {what}" for what, line in self._left_out.items()]

    # --- events

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        bound = lanes.site.bound
        if FENCE in bound.effects:
            self.fenced[lanes.place] = self.fresh[lanes.place] = True
            for one in self.of.values():
                one.written[:, lanes.place] = False
                one.shape[:, lanes.place] = 0
        elif any(lanes.site.body.holds(lanes.site)):
            self._opened(lanes)
        elif "alloc" in bound.effects:
            for cta, index in zip(lanes.cta.tolist(), lanes.index.tolist(), strict=True):
                self.allocated.setdefault(cta, (lanes.site, index))
            if bound.has(".cta_group::2"):
                self.of_pairs.update(set(lanes.cta.tolist()))
        for one in bound.asynchronous:
            if one.action == "open" and one.group in WAITS and FIRST_LANES not in self._left_out:
                lane = np.asarray(named(bound, arguments)["taddr"]).astype(np.int64) >> LANE_BITS
                if np.any((lane % LANES < WARP) & (lanes.thread % LANES >= WARP)):
                    self._left_out[FIRST_LANES] = self.launch.span(lanes.site).line
            if one.action == "wait" and one.group.startswith("tcgen05"):
                self._done(lanes, one.group, np.iinfo(np.int64).max)

    def committed(self, lanes: Lanes, queue: str) -> None:
        if queue == WGMMA:
            self.commits[lanes.place] += 1
            self.fresh[lanes.place] = False

    def awaited(self, lanes: Lanes, queue: str, limit: Array, reading: bool) -> None:
        if queue == WGMMA:
            self._done(lanes, queue, limit)
            self.waited[lanes.place] += 1

    def registers(self, lanes: Any, reads: int, writes: int) -> None:
        site = lanes.site
        of = self._of(site.body)
        places = lanes.place
        into = of.rows(writes)
        if is_copy(site.bound):
            source = of.rows(reads)
            if len(source) and len(into):
                if COPIES not in self._left_out and any(self._in_flight(of, source, lanes, "read")):
                    # the copy counts as in flight, too
                    self._left_out[COPIES] = self.launch.span(site).line
                for column in (of.holder, of.written, of.shape, of.fragment):
                    column[np.ix_(into, places)] = column[np.ix_(source, places)]
            elif len(into):
                self._used(of, into, lanes, "write")
                for column in (of.written, of.shape, of.fragment):
                    column[np.ix_(into, places)] = 0
            return
        self._used(of, of.rows(reads & ~writes), lanes, "read")
        self._used(of, into, lanes, "write")
        if len(into):
            of.written[np.ix_(into, places)] = self._computes(site)
            of.shape[np.ix_(into, places)] = 0
        self._fragments_at(of, lanes, into)

    def vacant(self, residents: Residents) -> None:
        for cta, (site, thread) in sorted(self.allocated.items()):
            memory = residents.kept(("cta", "tensor memory"), object)[cta]
            if getattr(memory, "taken", None):
                who = Side(*self.names.thread(thread), self.launch.span(site).line, "allocate")
                message = f"tensor memory that {_thread(who)} allocates is not deallocated before the kernel ends"
                self._report("T001", site, site, message, (who,), "")
        for cta, count in self.of_pairs.items() if self.launch.cluster_size % 2 == 0 else ():
            peer = cta ^ 1
            if count > self.of_pairs[peer]:
                site, thread = self.allocated[cta]
                who = Side(*self.names.thread(thread), self.launch.span(site).line, "allocate")
                message = f"{_thread(who)} allocates tensor memory for a pair of CTAs, and no warp of the other CTA does: one of each must"
                self._report("T002", site, site, message, (who,), "")
        self.flights = {}

    # --- registers

    def _of(self, body: Body) -> _Registers:
        found = self.of.get(id(body))
        if found is None:
            found = self.of[id(body)] = _Registers(body, self.residents.count)
        return found

    def _computes(self, site: Site) -> bool:
        """Whether an instruction writes anything but constants."""
        bound = site.bound
        assert isinstance(bound, Bound)
        return bool(bound.memory) or any(operand.reads and operand.shape.kind != "immediate" for operand in bound.operands)

    # --- fragments

    def _fragments_at(self, of: _Registers, lanes: Any, into: Array) -> None:
        """Checks fragments that an instruction reads against how they were created, and records those that it writes."""
        site, places = lanes.site, lanes.place
        fragments = site.body.fragments(site)
        for fragment, writes, numbers in fragments:
            if not writes:
                self._read_as(fragment, of.fragment[np.ix_(of.of(numbers), places)], lanes)
        if len(into):
            of.fragment[np.ix_(into, places)] = 0
        for fragment, writes, numbers in fragments:
            if writes:
                of.fragment[np.ix_(of.of(numbers), places)] = self._number(fragment, site)

    def _number(self, fragment: Fragment, site: Site) -> int:
        found = self._fragments.get((fragment, id(site)))
        if found is None:
            self._makers.append((fragment, site))
            found = self._fragments[fragment, id(site)] = len(self._makers)
        return found

    def _read_as(self, taken: Fragment, made: Array, lanes: Any) -> None:
        """Registers are read as a fragment. Reports if all of a thread's registers come from fragments (`made`), of which one is of
        another kind."""
        known = (made > 0).all(axis=0)
        for number in distinct_numbers(made[:, known]).tolist():
            fragment, maker = self._makers[number - 1]
            rule, said = _mismatch(fragment, taken)
            if not rule:
                continue
            lane = int(np.flatnonzero(known & (made == number).any(axis=0))[0])
            who = self.names.thread(int(lanes.index[lane]))
            lines = self.launch.span(maker).line, self.launch.span(lanes.site).line
            sides = (Side(*who, lines[0], "write"), Side(*who, lines[1], "read"))
            message = f"fragment of another matrix: {_thread(sides[1])} reads (line {lines[1]}) {said} (line {lines[0]})"
            severity = Severity.WARNING if rule == "F004" else Severity.ERROR
            self._report(rule, maker, lanes.site, message, sides, "", severity=severity)

    # --- operations in flight

    def _opened(self, lanes: Any) -> None:
        """An operation starts and uses registers."""
        site, places = lanes.site, lanes.place
        self.operations += 1
        of = self._of(site.body)
        results, sources = (of.of(numbers) for numbers in site.body.holds(site))
        queue = next(one.group for one in site.bound.asynchronous if one.action == "open")
        shape = 0
        if queue == WGMMA:
            shape = self.shapes.setdefault(site.bound.slot(".shape"), len(self.shapes) + 1)
            self._check_fences(of, results, sources, shape, lanes)
        self._used(of, sources, lanes, "read", results=True)
        self._used(of, results, lanes, "write", results=queue != WGMMA, sources=True)
        number = self.operations
        self.flights[number] = _Operation(site, queue, places, self.commits[places].copy(), self.waited[places].copy())
        of.holder[np.ix_(np.concatenate([results, sources]), places)] = number
        of.shape[np.ix_(results, places)] = shape
        of.written[np.ix_(results, places)] = False

    def _check_fences(self, of: _Registers, results: Array, sources: Array, shape: int, lanes: Any) -> None:
        places = lanes.place
        if not self.fenced[places].all():
            self._unfenced(lanes, int(np.flatnonzero(~self.fenced[places])[0]), -1, True)
            return
        others = of.shape[np.ix_(results, places)]
        for rows, wrong in (
            (results, of.written[np.ix_(results, places)] | ((others != 0) & (others != shape))),
            (sources, of.written[np.ix_(sources, places)] | (of.shape[np.ix_(sources, places)] != 0)),
        ):
            if wrong.any():
                row, lane = (int(x[0]) for x in np.nonzero(wrong))
                self._unfenced(lanes, lane, int(rows[row]), not self.fresh[places[lane]])
                return

    def _unfenced(self, lanes: Any, lane: int, row: int, is_first: bool) -> None:
        site = lanes.site
        who = Side(*self.names.thread(int(lanes.index[lane])), self.launch.span(site).line, "read")
        name = self._name(site, row)
        what = f"uses {name}, which was written after the last wgmma.fence" if name else "has no wgmma.fence before it"
        message = f"`{site.bound.opcode}` of {_thread(who)} (line {who.line}) {what}"
        self._report("W001" if is_first else "W002", site, site, message, (who,), name)

    def _used(self, of: _Registers, rows: Array, lanes: Any, how: str, results: bool = True, sources: bool = True) -> None:
        """Reports registers that an operation in flight uses. `results` and `sources` select which of its registers count."""
        for flight, wrong, is_source in self._in_flight(of, rows, lanes, how, results, sources):
            row, lane = (int(x[0]) for x in np.nonzero(wrong))
            self._early(flight, lanes.site, lanes, lane, int(rows[row]), how, int(wrong.any(axis=0).sum()), bool(is_source[row]))

    def _in_flight(
        self, of: _Registers, rows: Array, lanes: Any, how: str, results: bool = True, sources: bool = True
    ) -> Iterator[tuple[_Operation, Array, Array]]:
        """The operations in flight that use registers which an instruction accesses. Each with the registers, by row and lane, that it may
        not access yet, and the rows that are sources of the operation."""
        held = of.holder[np.ix_(rows, lanes.place)]
        for number in distinct_numbers(held[held > 0]).tolist() if held.any() else ():
            flight = self.flights.get(number)
            if flight is None:
                continue
            kept = of.of(flight.site.body.holds(flight.site)[1]) if flight.queue == WGMMA else np.zeros(0, np.int64)
            is_source = are_among(rows, kept)
            wrong = (held == number) & np.where(is_source, how == "write" and sources, results)[:, None]
            if wrong.any():
                yield flight, wrong, is_source

    def _early(self, flight: _Operation, site: Site, lanes: Any, lane: int, row: int, how: str, count: int, is_source: bool) -> None:
        place = int(lanes.place[lane])
        at = int(np.flatnonzero(flight.places == place)[0])
        rule, why = "T003", "there is no tcgen05.wait::ld in between"
        if flight.queue == WGMMA:
            waited = self.waited[place] > flight.waits[at]
            rule, why = "W003", "there is no wgmma.wait_group in between"
            if waited and flight.group[at] >= self.commits[place]:
                rule, why = "W005", "it is in no group that was waited for: it has not been committed"
            elif waited:
                rule, why = "W004", "the wait in between leaves its group in flight"
        if self._is_known(rule, flight.site, count):
            return
        who = self.names.thread(int(lanes.index[lane]))
        begun, now = self.launch.span(flight.site).line, self.launch.span(site).line
        sides = (Side(*who, begun, "read" if is_source else "write"), Side(*who, now, how))
        assert isinstance(flight.site.bound, Bound)
        name = self._name(site, row)
        does = {"read": "reads", "write": "writes"}
        message = (
            f"register in flight: `{flight.site.bound.opcode}` of {_thread(sides[0])} {does[sides[0].kind]} {name} (line {begun}), "
            f"the thread {does[how]} it (line {now}), and {why}"
        )
        self._report(rule, flight.site, site, message, sides, name, count)

    def _done(self, lanes: Lanes, queue: str, limit: Any) -> None:
        """Threads have waited for the groups below a limit."""
        asked = np.zeros(self.residents.count, bool)
        asked[lanes.place] = True
        for number, flight in list(self.flights.items()):
            if flight.queue != queue:
                continue
            most = limit[flight.places] if isinstance(limit, np.ndarray) else limit
            chosen = asked[flight.places] & (flight.group < most)
            if not chosen.any():
                continue
            for of in self.of.values():
                columns = of.holder[:, flight.places[chosen]]
                of.holder[:, flight.places[chosen]] = np.where(columns == number, 0, columns)
            left = np.flatnonzero(~chosen)
            if len(left):
                flight.places, flight.group, flight.waits = flight.places[left], flight.group[left], flight.waits[left]
            else:
                del self.flights[number]

    # --- findings

    def _name(self, site: Site, row: int) -> str:
        """The name of a register in an instruction."""
        if row < 0:
            return ""
        number = next(one for one, at in self._of(site.body).row.items() if at == row)
        for operand in site.instruction.operands:
            for node in operand.children if isinstance(operand, Vector) else [operand]:
                if isinstance(node, Name) and number in site.body.named(site.scope, node.text):
                    return node.text
        return "a register"

    def _is_known(self, rule: str, first: Site, count: int) -> bool:
        """Whether there is a finding of a rule about an operation; if so, it is about `count` more threads."""
        known = self._found.get((rule, id(first)))
        if known is not None:
            self.findings[known] = attrs.evolve(self.findings[known], count=self.findings[known].count + count)
        return known is not None

    def _report(
        self,
        rule: str,
        first: Site,
        second: Site,
        message: str,
        sides: tuple[Side, ...],
        register: str,
        count: int = 1,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Adds a finding, the first for each operation, since code that reads its results often reads all of them."""
        if self._is_known(rule, first, count):
            return
        spans = [self.launch.span(site) for site in (first, second)]
        diagnostic = Diagnostic(
            rule,
            RULES[rule],
            severity,
            message,
            spans[1],
            path=self.launch.program.code.path,
            function=self.launch.program.kernel,
            related=(Related(spans[0], "produced here" if rule[0] == "F" else "the operation begins here"),) if first is not second else (),
        )
        witness = {"accesses": [side.as_json() for side in sides], "space": "register", "variable": register}
        self._found[rule, id(first)] = len(self.findings)
        self.findings.append(Finding(diagnostic, {**witness, "launch": launch_as_json(self.launch)}, count))
        self.launch.found()


def _mismatch(made: Fragment, taken: Fragment) -> tuple[str, str]:
    """The rule that is violated if a fragment is read as another kind, and a description; empty if the kinds are the same."""
    if made.shape != taken.shape:
        return "F001", f"as one of shape {taken.shape} what was produced as one of shape {made.shape}"
    if made.matrix != taken.matrix:
        return "F004", f"as {_MATRICES[taken.matrix]} what was produced as {_MATRICES[made.matrix]}"
    if made.type != taken.type:
        return "F003", f"as {taken.type} what was produced as {made.type}"
    if made.layout != taken.layout and made.matrix != "c":
        return "F002", f"as {taken.layout} what was produced as {made.layout}"
    return "", ""


def _thread(side: Side) -> str:
    return f"thread ({','.join(map(str, side.thread))}) of CTA ({','.join(map(str, side.cta))})"


__all__ = ["RULES", "Matrices"]
