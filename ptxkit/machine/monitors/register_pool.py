"""Registers that warpgroups request from those of their CTA: `setmaxnreg` waits until there are enough (9.7.19.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.isa.binding import Bound
from ptxkit.machine.fault import spoken_index
from ptxkit.machine.groups import WARP
from ptxkit.machine.monitors.collected import Collected, Rule, spoken_thread
from ptxkit.syntax import constant_value

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.interfaces import Launch, Residents

REGISTERS: Rule = ("C011", "setmaxnreg")
REGISTER_FILE = 1 << 16
"""Registers of a multiprocessor."""
STEP = 8
"""Granularity of register allocation."""


class RegisterPool:
    """The registers that the warpgroups of the resident CTAs have requested."""

    def __init__(self, launch: Launch, residents: Residents, collected: Collected) -> None:
        self.launch = launch
        self.residents = residents
        self.collected = collected
        self._granted: dict[tuple[int, int], tuple[int, Site]] = {}
        """By CTA and warpgroup, the registers that each thread has by `setmaxnreg`."""

    def request(self, lanes: Any, bound: Bound) -> None:
        """Called when threads request a number of registers (`setmaxnreg`)."""
        count = int(constant_value(lanes.site.instruction.operands[0]) or 0)
        most = self._begin_with() or min(255, REGISTER_FILE // max(1, -(-self.residents.threads // WARP) * WARP) // STEP * STEP)
        if bound.has(".dec") and count > most and not self.collected.knows((id(lanes.site), "release")):
            self.collected.add(
                (id(lanes.site), "release"),
                REGISTERS,
                f"{spoken_thread(*self.collected.thread(lanes, 0))} releases registers down to {count}: with"
                f" {self._why()} no thread has more than {most}",
                lanes.site,
                {"waiting": self.collected.groups(lanes.index, self.collected.line(lanes.site), "nothing")},
            )
        group = lanes.thread // (4 * WARP)
        for cta, number in sorted(set(zip(lanes.cta.tolist(), group.tolist(), strict=True))):
            self._granted[cta, number] = (count, lanes.site)

    def _begin_with(self) -> int:
        """The registers with which each thread starts if the kernel specifies it (`.maxnreg`); otherwise 0."""
        for directive in self.launch.program.entry.function.header.directives:
            if directive.name == ".maxnreg" and directive.arguments:
                return -(-int(constant_value(directive.arguments[0]) or 0) // STEP) * STEP
        return 0

    def _why(self) -> str:
        return ".maxnreg" if self._begin_with() else f"{self.residents.threads} threads a CTA"

    def check(self) -> None:
        """Checks whether all warpgroups can have the registers that they last requested, and the others those that they started with."""
        begin, threads = self._begin_with(), self.residents.threads
        pool = begin * threads or REGISTER_FILE
        what = f"it has {pool} (.maxnreg)" if begin else f"a multiprocessor has {pool}"
        by_cta: dict[int, list[tuple[int, Site, int]]] = {}
        for (cta, group), (count, site) in self._granted.items():
            by_cta.setdefault(cta, []).append((count, site, group))
        for cta, asked in by_cta.items():
            others = max(0, -(-threads // (4 * WARP)) - len(asked)) if begin else 0
            total = 4 * WARP * (sum([count for count, *_ in asked]) + others * begin)
            if total <= pool:
                continue
            takes = [one for one in asked if isinstance(one[1].bound, Bound) and one[1].bound.has(".inc")]
            _, site, _ = max(takes or asked, key=lambda one: one[0])
            if self.collected.knows((id(site), "pool")):
                continue
            thread = np.arange(threads)
            groups = [group for _, at, group in asked if at is site]
            mine = thread[np.isin(thread // (4 * WARP), groups)] + cta * threads + self.residents.first
            number = spoken_index(self.collected.names.thread(self.residents.first + cta * threads)[0])
            each = " + ".join([str(count) for count in (*[count for count, *_ in asked], *[begin] * others)])
            self.collected.add(
                (id(site), "pool"),
                REGISTERS,
                f"warpgroups of CTA {number} ask for {each} registers per thread, {total} in all, but {what}: one of them deadlocks",
                site,
                {"waiting": self.collected.groups(mine, self.collected.line(site), "registers")},
            )
