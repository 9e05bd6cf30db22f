"""The witness of every finding, held against the execution: `Log` writes down what each thread did, and `held` looks there for what a
finding says. `conftest.py` does so for every launch under monitors that any test makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ptxkit.machine.fault import Fault
from ptxkit.machine.findings import Finding
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.naming import Names

Thread = tuple[tuple[int, ...], tuple[int, ...]]
Entry = tuple[str, str, int, int, int]
"""An access: kind, space, first byte, bytes, and how many barriers of its whole CTA the thread had passed."""


class Log(Monitor):
    """What threads did, by line."""

    def begin(self, launch: Any) -> None:
        self.launch = launch
        self.names = Names(launch)
        self.lines: dict[int, set[int]] = {}
        """By line, the threads that executed what stands there."""
        self.accesses: dict[int, list[tuple[Any, Any, np.ndarray[Any, Any], list[int]]]] = {}
        self.passes: dict[int, int] = {}
        """How many barriers a CTA has passed, all threads at once."""
        self.ended: set[int] = set()

    def _line(self, lanes: Any) -> int:
        site = getattr(lanes, "site", None)
        return int(self.launch.span(site).line) if site is not None else 0

    def _did(self, lanes: Any) -> int:
        line = self._line(lanes)
        for site, index in zip(getattr(lanes, "sites", ()), lanes.index.tolist(), strict=False):
            # lanes of several instructions execute one operation together
            self.lines.setdefault(int(self.launch.span(site).line), set()).add(index)
        self.lines.setdefault(line, set()).update(lanes.index.tolist())
        return line

    def access(self, access: Any) -> None:
        line = self._did(access.lanes)
        at = np.broadcast_to(np.asarray(access.at, np.int64), access.lanes.count).copy()
        # lanes of several CTAs may do it together
        passes = [self.passes.get(cta, 0) for cta in access.lanes.cta.tolist()]
        self.accesses.setdefault(line, []).append((access, access.lanes.index.copy(), at, passes))

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self._did(lanes)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        self._did(lanes)
        bound = lanes.site.bound
        if any(one.action == "wait" for one in bound.barrier) and bound.form.mnemonic in ("bar", "barrier") and not bound.has(".cluster"):
            for cta in np.unique(lanes.cta).tolist():
                if int((lanes.cta == cta).sum()) == self.launch.threads and not bound.has(".warp"):
                    self.passes[cta] = self.passes.get(cta, 0) + 1

    def partial(self, lanes: Any, missing: Any) -> None:
        self._did(lanes)

    def exit(self, lanes: Any) -> None:
        self.ended.update(lanes.index.tolist())

    def number(self, cta: Sequence[int], thread: Sequence[int]) -> int:
        """The number of a thread in the launch."""
        for number in range(self.launch.ctas):
            first = number * self.launch.threads
            if list(self.names.thread(first)[0]) == list(cta):
                x, y, _ = self.launch.block
                return first + thread[0] + x * (thread[1] + y * thread[2])
        raise AssertionError(f"there is no CTA {cta}")

    def of(self, side: Mapping[str, Any]) -> Iterator[Entry]:
        """The accesses of a thread at a line."""
        number = self.number(side["cta"], side["thread"])
        for access, index, at, passes in self.accesses.get(side["line"], ()):
            # lanes of a warp exchange what they load or store as rows of matrices
            is_exchange = access.lanes.site.bound.form.mnemonic in ("ldmatrix", "stmatrix")
            for lane in np.flatnonzero(index // 32 == number // 32 if is_exchange else index == number).tolist():
                if access.proxy not in ("", "generic"):
                    continue
                yield access.kind, access.space.partition("::")[0], int(at[lane]), access.size, passes[lane]


def held(finding: Finding, log: Log, fault: Fault | None) -> None:
    """Asserts that the execution has what the witness of a finding says."""
    witness = finding.witness
    sides = witness.get("accesses", ())
    assert sides or witness.get("waiting"), f"{finding.diagnostic.message}: no threads"
    for side in sides:
        if side["kind"] == "use" or witness.get("space") == "register":
            # of a value by a branch, a guard or arithmetic, or of a register: that is no event
            continue
        _was_there(finding, log, fault, side["cta"], side["thread"], side["line"])
    for group in witness.get("waiting", ()):
        for thread in group["threads"]:
            _was_there(finding, log, fault, group["cta"], thread, group["line"])
            if finding.diagnostic.name == "deadlock":
                assert log.number(group["cta"], thread) not in log.ended, finding.diagnostic.message
    # of an operation in flight, whose name stands in quotes, the log has who started it
    is_plain = "data race" in finding.diagnostic.message and "`" not in finding.diagnostic.message
    if len(sides) == 2 and witness.get("space") in ("shared", "global") and is_plain:
        _races(finding, log, sides)


def _was_there(finding: Finding, log: Log, fault: Fault | None, cta: Sequence[int], thread: Sequence[int], line: int) -> None:
    """The thread executed something at the line, or the launch ended there."""
    ended_there = fault is not None and fault.line == line
    came = log.number(cta, thread) in log.lines.get(line, ())
    # who waits for the others of its warp has executed nothing yet
    waits = fault is not None and fault.kind in ("deadlock", "standstill") and log.number(cta, thread) not in log.ended
    assert came or ended_there or waits or not line, f"{finding.diagnostic.message}: {thread} of {cta} never came to line {line}"


def _races(finding: Finding, log: Log, sides: Sequence[Mapping[str, Any]]) -> None:
    """Two threads access the same bytes, one of them writes, and no barrier of the whole CTA stands between them."""
    one, two = [list(log.of(side)) for side in sides]
    together = [
        (first, second)
        for first in one
        for second in two
        if first[1] == second[1] and first[2] < second[2] + second[3] and second[2] < first[2] + first[3]
    ]
    assert together, f"{finding.diagnostic.message}: the two do not touch the same bytes"
    assert any("read" not in (a[0], b[0]) or a[0] != b[0] for a, b in together), finding.diagnostic.message
    if finding.diagnostic.rule[0] in "AMWTP" or "between proxies" in finding.diagnostic.message:
        # an operation in flight may have been done before a barrier that does not wait for it, and a barrier is no fence between proxies
        return
    if sides[0]["cta"] == sides[1]["cta"] and list(sides[0]["thread"]) != list(sides[1]["thread"]):
        assert any(a[4] == b[4] for a, b in together), f"{finding.diagnostic.message}: a barrier orders the two"
