"""A monitor that tracks the mbarriers of a launch, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ptxkit.analyses.protocols.mbarrier.uses import Phase, Use
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.asynchronous.arguments import located, named
from ptxkit.machine.fault import Stop
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.naming import Names
from ptxkit.machine.values.distinct import distinct_numbers

SETTLED = "settled"
"""Kind of the fault that ends a launch in which mbarriers only repeat their phases."""
UNWAITED = "async-data-read-without-wait"
"""Name of findings about accesses to data of a copy by a thread that has not observed its completion."""


class Watch(Monitor):
    """Records the operations on each mbarrier. `at` has the instructions of the kernel by their paths.

    The launch ends (`SETTLED`) at an operation on an mbarrier if all such operations for more than `patience` operations have been executed
    before, at the same mbarrier in a phase of the same parity: a ring has then wrapped around.
    """

    follows_undefined = True
    """Not needed here; but the compiled blocks are then shared with launches under all monitors."""

    def __init__(self, at: dict[tuple[int, ...], int], patience: int) -> None:
        self.at = at
        self.patience = patience
        self.uses: dict[int, Use] = {}
        """By position in the buffer of shared memory; only for the first resident CTAs."""
        self._chunks = 0
        self.operations = 0
        """Cost of the launch in operations."""
        self._known: set[tuple[int, int, int]] = set()
        """Instructions that have been executed, with the mbarrier and the parity of its phase."""
        self._last = 0
        """Number of operations before the last addition to these."""

    def begin(self, launch: Any) -> None:
        self.launch = launch
        self.names = Names(launch)

    def resident(self, residents: Any) -> None:
        self._chunks += 1

    def end(self, launch: Any) -> None:
        self.operations = launch.operations

    def instruction(self, lanes: Any, arguments: tuple[Any, ...]) -> None:
        self._operation(lanes, arguments, has_passed=False)

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        self._operation(lanes, arguments, has_passed=True)

    def _operation(self, lanes: Any, arguments: tuple[Any, ...], has_passed: bool) -> None:
        bound = lanes.site.bound
        if self._chunks > 1 or not isinstance(bound, Bound) or not bound.barrier:
            return
        operand = bound.operand(bound.barrier[0].operand)
        if operand is None or operand.role != "addr":
            return
        given = named(bound, arguments)
        actions = {one.action for one in bound.barrier}
        if given.get(operand.name) is None or (has_passed and "wait" not in actions):
            return
        i = self.at.get(lanes.site.path, -1)
        where = located(lanes, bound, given[operand.name], operand.name)
        for at in distinct_numbers(where).tolist():
            mine = np.flatnonzero(where == at)
            if "init" in actions:
                self._init(at, i, lanes, given, mine)
            elif at in self.uses:
                self._follow(at)
                self._see((i, at, self.uses[at].phases[-1].parity))
                threads = lanes.index[mine].tolist()
                if "wait" in actions and not has_passed:
                    self.uses[at].blocked[i] = set(threads) | self.uses[at].blocked.get(i, set())
                else:
                    self._used(self.uses[at], actions, i, threads, given, mine)

    def _see(self, what: tuple[int, int, int]) -> None:
        now = int(self.launch.operations + self.launch.scheduler.operations)
        if what not in self._known:
            self._known.add(what)
            self._last = now
        elif now > self._last + self.patience:
            raise Stop(SETTLED, "mbarriers have repeated their phases for long enough")

    def _init(self, at: int, i: int, lanes: Any, given: dict[str, Any], mine: Any) -> None:
        cta = int(lanes.cta[mine[0]])
        variable, offset = self.names.variable(".shared", at)
        name = f"{variable}{f'+{offset}' if offset else ''}" if variable else str(offset)
        count = int(np.broadcast_to(np.asarray(given["count"]), lanes.count)[mine[0]])
        self.uses[at] = Use(cta, name, i, count, phases=[Phase(0)])

    def _follow(self, at: int) -> None:
        """Starts the next phase if the last one has completed."""
        use = self.uses[at]
        word = self.launch.machine.memory.shared.view(np.dtype(np.uint64))[[at >> 3]]
        parity = int(np.asarray(objects.parity(word))[0])
        if parity != use.phases[-1].parity:
            use.phases.append(Phase(parity))

    def _used(self, use: Use, actions: set[str], i: int, threads: Sequence[int], given: dict[str, Any], mine: Any) -> None:
        phase = use.phases[-1]
        if "expect" in actions and given.get("tx") is not None:
            phase.expected += int(np.broadcast_to(np.asarray(given["tx"], np.int64), max(len(mine), int(mine.max()) + 1))[mine].sum())
        if "arrive" in actions:
            phase.arrivals += len(threads)
            use.arrives.setdefault(i, set()).update(threads)
        if "wait" in actions:
            self._wait(use, i, threads, given, mine)

    def _wait(self, use: Use, i: int, threads: Sequence[int], given: dict[str, Any], mine: Any) -> None:
        """Lanes that continue after a wait: by its parity, it was for the phase that completed last, or else they gave up."""
        use.waits.setdefault(i, set()).update(threads)
        if given.get("parity") is not None:
            asked = np.asarray(given["parity"]).astype(np.int64) & 1
        elif given.get("state") is not None:
            asked = np.asarray(objects.parity(np.asarray(given["state"], np.uint64))).astype(np.int64)
        else:
            return
        for thread, parity in zip(threads, np.broadcast_to(asked, int(mine.max()) + 1)[mine].tolist(), strict=True):
            if parity == use.phases[-1].parity:
                continue
            if use.waited.get(thread) == parity:
                use.stale.setdefault(thread, i)
            use.waited[thread] = parity
            use.seen[thread] = use.completed - 1

    def late(self, findings: Sequence[Any]) -> Iterator[tuple[int, int]]:
        """From findings, the threads that have not observed the completion of a copy, and the line where they access its data."""
        for finding in findings:
            if finding.diagnostic.name != UNWAITED:
                continue
            for side in finding.witness["accesses"]:
                x, y, _ = self.launch.block
                inside = side["thread"][0] + x * (side["thread"][1] + y * side["thread"][2])
                number = next(
                    n for n in range(self.launch.ctas) if list(self.names.thread(n * self.launch.threads)[0]) == list(side["cta"])
                )
                yield number * self.launch.threads + inside, side["line"]
