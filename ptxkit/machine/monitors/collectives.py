"""Operations that a warp or warpgroup executes together: member masks, alignment, uniform branches (ISA 9.7.10.6, 9.7.14.2, 9.7.15).

| rule | condition |
| --- | --- |
| C002, C003 | part of a warp or warpgroup executes an aligned instruction |
| C004, C005 | an executing lane is not in its mask; a lane in the mask waits elsewhere, or has another mask |
| C008 | an instruction for whole warps after lanes of one have exited |
| C012 | divergent threads at `.uni` |
| F007 | lanes of a warp that pass different addresses or strides of one matrix |

No mask misses threads that have exited, as on hardware from sm_70 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.isa.binding import Bound
from ptxkit.machine.asynchronous.arguments import named
from ptxkit.machine.groups import WARP
from ptxkit.machine.monitors.collected import Collected, Rule, opcode, spoken_thread, threads
from ptxkit.machine.monitors.deadlocks import lanes_of, spoken_lanes
from ptxkit.machine.monitors.sites import Sites

if TYPE_CHECKING:
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.fault import Fault
    from ptxkit.machine.interfaces import Residents
    from ptxkit.machine.monitors.order import Order

Array = np.ndarray[Any, Any]
PART_OF_WARP: Rule = ("C002", "warp-aligned-divergent")
PART_OF_WARPGROUP: Rule = ("C003", "warpgroup-aligned-divergent")
NOT_IN_MASK: Rule = ("C004", "executor-not-in-membermask")
ABSENT: Rule = ("C005", "membermask-names-absent-lanes")
EXITED: Rule = ("C008", "exit-before-warp-collective")
NOT_UNIFORM: Rule = ("C012", "false-uni-claim")
UNEQUAL: Rule = ("F007", "wmma-operand-not-warp-uniform")


class Collectives:
    """What lanes of a warp or warpgroup must execute together."""

    residents: Residents
    _accessed: Array

    def __init__(self, collected: Collected, order: Order) -> None:
        self.collected = collected
        self._order = order
        self._sites = Sites()
        self._masked: dict[int, bool] = {}
        """By function, whether it has instructions with a mask."""

    def resident(self, residents: Residents) -> None:
        """Called when CTAs become resident."""
        self.residents = residents
        self._accessed = np.full(residents.count, -1)
        """The last access of each thread, in functions with instructions that have masks."""

    def joined(self, more: int) -> None:
        """Called when further threads become resident beside the others."""
        self._accessed = np.concatenate([self._accessed, np.full(more, -1)])

    def instruction(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        """Called when lanes execute a synchronizing instruction."""
        if bound.members is not None and bound.members.reads:
            self._masks(lanes, bound, arguments)
            self._deserted(lanes, self._named(lanes, bound, arguments))
        converges = bound.converges
        if converges is not None and converges.whole:
            self._whole(lanes, converges.level, self._named(lanes, bound, arguments))
        if bound.memory and any(fragment.is_opaque for fragment in bound.fragments):
            self._equal(lanes, bound.memory[0].operand, named(bound, arguments))

    def access(self, lanes: Any, site: Site) -> None:
        """Called when lanes access memory."""
        if self._has_masks(site.body):
            self._accessed[lanes.place] = self._sites.number(site)

    def partial(self, lanes: Any, missing: Array) -> None:
        """Reports an aligned instruction that executes without some of the lanes that it needs."""
        converges = lanes.site.bound.converges
        if converges is None or not converges.aligned:
            return
        rows = np.flatnonzero(missing)
        rule = PART_OF_WARPGROUP if converges.level == "warpgroup" else PART_OF_WARP
        cause = (id(lanes.site), rule)
        if not len(rows) or self.collected.knows(cause, len(rows)):
            return
        warp, there = int(lanes.warps[rows[0]]), int(lanes.warp_mask[rows[0]])
        absent = int(missing[rows[0]])
        group = f"the {converges.level}"
        mine = lanes.index[lanes.warp == warp]
        self.collected.add(
            cause,
            rule,
            f"{self.collected.warp(self.residents, warp)}: {lanes_of(there, 'execute')} `{opcode(lanes.site)}` without {lanes_of(absent)}:"
            f" the whole {converges.level} must execute it together",
            lanes.site,
            {"waiting": self.collected.groups(mine, self.collected.line(lanes.site), f"lanes {spoken_lanes(absent)} of {group}")},
            count=len(rows),
        )

    def refused(self, fault: Fault) -> None:
        """Reports an instruction that the machine does not execute for part of a warp or warpgroup."""
        if any(finding.diagnostic.span == fault.diagnostic.span for finding in self.collected.findings):
            return
        cta, thread = fault.threads[0]
        group = {"cta": list(cta), "threads": [list(one) for _, one in fault.threads], "count": fault.count, "line": fault.line or 0}
        rule = PART_OF_WARP if fault.kind == "warp" else PART_OF_WARPGROUP
        message = f"{threads(fault.count)} from {spoken_thread(cta, thread)} on: {fault.reason}"
        witness = {"waiting": [{**group, "for": f"the rest of the {fault.kind}"}]}
        self.collected.add(("fault", fault.line), rule, message, None, witness, span=fault.diagnostic.span)

    def _masks(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> None:
        """Checks member masks: each executing lane is in its own mask, and all lanes in it have the same mask."""
        assert bound.members is not None
        mask = np.asarray(named(bound, arguments)[bound.members.name]).astype(np.uint32)
        if not mask.ndim and mask == 0xFFFFFFFF:
            return
        masks = np.broadcast_to(mask, lanes.count)
        bit = np.uint32(1) << lanes.lane.astype(np.uint32)
        out = np.flatnonzero(masks & bit == 0)
        if len(out) and not self.collected.knows((id(lanes.site), "out"), len(out)):
            lane = int(out[0])
            site = lanes.site_of(lane)
            line, what = self.collected.line(site), f"lanes {spoken_lanes(int(masks[lane]))}"
            self.collected.add(
                (id(lanes.site), "out"),
                NOT_IN_MASK,
                f"{spoken_thread(*self.collected.thread(lanes, lane))} executes `{opcode(site)}` with mask {int(masks[lane]):#x},"
                f" which excludes its own lane {int(lanes.lane[lane])}",
                site,
                {"waiting": self.collected.groups(lanes.index[out], line, what)},
                count=len(out),
            )
        if not mask.ndim or (masks == masks[0]).all():
            return
        rows = lanes.by_warp(masks)
        equal = np.packbits(rows[:, :, None] == rows[:, None, :], axis=2, bitorder="little").view(np.uint32)[:, :, 0]
        others = rows & ~equal & lanes.warp_mask[:, None]
        wrong = np.argwhere(lanes.active & (others != 0))
        if len(wrong):
            row, lane = wrong[0].tolist()
            lowest = int(others[row, lane] & -others[row, lane]).bit_length() - 1
            self._unequal(lanes, int(lanes.warps[row]), lane, lowest, int(rows[row, lane]), int(rows[row, lowest]))

    def _equal(self, lanes: Any, address: str, given: dict[str, Any]) -> None:
        """Checks the address and the stride of a matrix, which must be the same in a warp (9.7.15.3.3, 9.7.15.3.4)."""
        for name, what in ((address, "an address"), ("stride", "a stride")):
            value = np.asarray(given.get(name, 0))
            if not value.ndim or (value == value[0]).all():
                continue
            rows = lanes.by_warp(value)
            first = lanes.active.argmax(axis=1)
            wrong = np.argwhere(lanes.active & (rows != rows[np.arange(len(rows)), first][:, None]))
            cause = (id(lanes.site), name)
            if not len(wrong) or self.collected.knows(cause, len(wrong)):
                continue
            row, lane = wrong[0].tolist()
            warp = int(lanes.warps[row])
            self.collected.add(
                cause,
                UNEQUAL,
                f"{self.collected.warp(self.residents, warp)}: lane {lane} passes {what} of the matrix that differs from that"
                f" of lane {int(first[row])}: it must be the same for the whole warp",
                lanes.site,
                # about registers: the operands differ, whatever their values
                {
                    "waiting": self.collected.groups(lanes.index[lanes.warp == warp], self.collected.line(lanes.site), "the whole warp"),
                    "space": "register",
                },
                count=len(wrong),
            )

    def _has_masks(self, body: Body) -> bool:
        """Whether a function has instructions with a mask of the lanes that must execute them together."""
        found = self._masked.get(id(body))
        if found is None:
            found = self._masked[id(body)] = any(one.members is not None and one.members.reads for one in body.forms)
        return found

    def _deserted(self, lanes: Any, named: Array) -> None:
        """Detects lanes that a mask names and that will not come: they have executed what follows the instruction, and exited."""
        gone = named & ~self.residents.alive_mask[lanes.warps]
        for row in np.flatnonzero(gone).tolist():
            cta, warp = divmod(int(lanes.warps[row]), self.residents.warps_per_cta)
            threads = np.array([lane for lane in range(WARP) if gone[row] >> lane & 1]) + warp * WARP
            places = threads[threads < self.residents.threads] + cta * self.residents.threads
            last = self._accessed[places]
            for number in np.unique(last[last >= 0]).tolist():
                if self._order.is_after(lanes.site, self._sites[number]):
                    self._skip(lanes, places[last == number], cta, self._sites[number])

    def _skip(self, lanes: Any, places: Array, cta: int, after: Site) -> None:
        if self.collected.knows((id(lanes.site), "deserted"), len(places)):
            return
        mask = sum([1 << place for place in ((places - cta * self.residents.threads) % WARP).tolist()])
        number = cta * self.residents.warps_per_cta + int(places[0] - cta * self.residents.threads) // WARP
        warp = self.collected.warp(self.residents, number)
        line, now = self.collected.line(lanes.site), self.collected.line(after)
        self.collected.add(
            (id(lanes.site), "deserted"),
            ABSENT,
            f"{warp}: {lanes_of(mask, 'skip')} `{opcode(lanes.site)}` (line {line}) and go on to line {now}, though its mask names"
            f" them: the other lanes wait until they exit",
            lanes.site,
            {"waiting": self.collected.groups(places + self.residents.first, now, "nothing")},
            severity=Severity.WARNING,
            related=[(after, "they execute this")],
            count=len(places),
        )

    def _unequal(self, lanes: Any, warp: int, lane: int, other: int, mask: int, theirs: int) -> None:
        positions = [int(np.flatnonzero((lanes.warp == warp) & (lanes.lane == one))[0]) for one in (lane, other)]
        here, there = [lanes.site_of(position) for position in positions]
        groups = [
            group
            for position, site, members in zip(positions, (here, there), (mask, theirs), strict=True)
            for group in self.collected.groups(lanes.index[[position]], self.collected.line(site), f"lanes {spoken_lanes(members)}")
        ]
        self.collected.add(
            (id(here), "unequal"),
            ABSENT,
            f"{self.collected.warp(self.residents, warp)}: lane {lane} executes `{opcode(here)}` with the mask {mask:#x},"
            f" lane {other}, which it names, with {theirs:#x}: they must be equal",
            here,
            {"waiting": groups},
            related=[(there, f"lane {other} executes this")] if there is not here else (),
        )

    def _named(self, lanes: Any, bound: Bound, arguments: tuple[Any, ...]) -> Array:
        """For each warp, the lanes that must execute an instruction, as bits: those in masks, or all."""
        if bound.members is None or not bound.members.reads:
            return np.full(len(lanes.warps), 0xFFFFFFFF, np.uint32)
        mask = np.asarray(named(bound, arguments)[bound.members.name]).astype(np.uint32)
        found: Array = np.bitwise_or.reduce(lanes.by_warp(np.broadcast_to(mask, lanes.count)), axis=1)
        return found

    def _whole(self, lanes: Any, level: str, named: Array) -> None:
        """Checks instructions that require lanes that have exited."""
        if level == "warp" and lanes.count % WARP == 0 and len(lanes.warps) * WARP == lanes.count:
            return
        gone = named & ~self.residents.alive_mask[lanes.warps]
        rows = np.flatnonzero(gone)
        if not len(rows) or self.collected.knows((id(lanes.site), "exited"), len(rows)):
            return
        warp = int(lanes.warps[rows[0]])
        mine = lanes.index[lanes.warp == warp]
        self.collected.add(
            (id(lanes.site), "exited"),
            EXITED,
            f"{self.collected.warp(self.residents, warp)} executes `{opcode(lanes.site)}` after {lanes_of(int(gone[rows[0]]))} exited:"
            f" it needs the whole warp",
            lanes.site,
            {"waiting": self.collected.groups(mine, self.collected.line(lanes.site), "the whole warp")},
            count=len(rows),
        )

    def branch(self, lanes: Any, taken: Any) -> None:
        """Checks a branch that is marked uniform.

        Under a random schedule, time-limited waits of lanes of one warp may end at different times; divergence is then due to the schedule.
        """
        if not getattr(taken, "ndim", 0) or isinstance(self.collected.launch.schedule, int):
            return
        rows = lanes.by_warp(taken, False)
        parted = np.flatnonzero(rows.any(axis=1) & (lanes.active & ~rows).any(axis=1))
        if not len(parted) or self.collected.knows((id(lanes.site), "uni"), len(parted)):
            return
        warp = int(lanes.warps[parted[0]])
        takes = int(np.packbits(rows[parted[0]], bitorder="little").view(np.uint32)[0])
        self.collected.add(
            (id(lanes.site), "uni"),
            NOT_UNIFORM,
            f"{self.collected.warp(self.residents, warp)}: {lanes_of(takes, 'take')} a branch that the others do not,"
            f" but `.uni` promises one path for all",
            lanes.site,
            {"waiting": self.collected.groups(lanes.index[lanes.warp == warp], self.collected.line(lanes.site), "nothing")},
            count=len(parted),
        )
