"""Counts what a launch executes, without probes: instructions, divergence, accesses with sectors and bank conflicts, waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from ptxkit.frozen import define
from ptxkit.isa.binding import Bound
from ptxkit.machine.monitoring import Monitor

if TYPE_CHECKING:
    from ptxkit.machine.blocks import BasicBlock
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.groups import Array, Lanes
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.memory import Access

SECTOR = 32
"""Bytes of a sector of global memory."""
BANKS = 32
"""Banks of shared memory, of 4 bytes each."""
WARP = 32
WIDEST = 16
"""Bytes of the widest shared memory access of a thread."""
Row = dict[str, str | int]


@define(eq=False)
class _Block:
    body: Body
    block: BasicBlock
    warps: int = 0
    threads: int = 0
    branches: int = 0
    divergent: int = 0


@define(eq=False)
class _Accesses:
    """Counts of one instruction in one state space."""

    site: Site
    space: str
    kind: str
    width: int
    requests: int = 0
    threads: int = 0
    bytes: int = 0
    sectors: int = 0
    passes: int = 0
    conflicts: int = 0
    lanes: Any = None
    """The lanes of the last access."""


class Counters(Monitor):
    """Counts events. `tables` cover everything since creation; a warp counts once for each of its groups that executes separately.

    Thread counts depend on the program alone. The number of groups of a warp, and thus of requests, depends on where the machine
    reconverges them, which is at the merge of their paths.
    """

    def __init__(self) -> None:
        self.launch: Launch | None = None
        self._blocks: dict[int, _Block] = {}
        self._accesses: dict[tuple[int, str], _Accesses] = {}
        self._waits: dict[int, list[Any]] = {}
        self._looks: dict[int, Access] = {}
        """The last access to an mbarrier, by instruction."""
        self._gone: dict[int, Any] = {}
        """Lanes that passed an mbarrier before any access to it, by instruction."""

    def begin(self, launch: Launch) -> None:
        self.launch = launch

    def block(self, lanes: Lanes, body: Body, block: BasicBlock, taken: Any) -> None:
        found = self._blocks.get(id(block))
        if found is None:
            found = self._blocks[id(block)] = _Block(body, block)
        warps = len(lanes.warps)
        found.warps += warps
        found.threads += lanes.count
        if block.kind == "branch" and block.guard >= 0:
            found.branches += warps
            if getattr(taken, "ndim", 0):
                took = np.unique(lanes.warp[taken])
                found.divergent += len(np.intersect1d(took, lanes.warp[~taken], assume_unique=False))

    def access(self, access: Access) -> None:
        lanes = access.lanes
        site = getattr(lanes, "site", None)
        if site is None:
            return
        if _is_wait(site):
            # the number of polls depends on the machine; only the final success counts
            self._looks[id(site)] = access
            if id(site) in self._gone:
                self._look(self._gone.pop(id(site)), access, site)
            return
        self._count(access, lanes, site)

    def _count(self, access: Access, lanes: Any, site: Site) -> None:
        key = id(site), access.space
        found = self._accesses.get(key)
        if found is None:
            found = self._accesses[key] = _Accesses(site, access.space, access.kind, access.size)
        elif found.kind != access.kind:
            found.kind = "update"
        if found.lanes is lanes:
            # a further element of the same access
            found.bytes += lanes.count * access.size
            return
        found.lanes = lanes
        at = np.asarray(access.at)
        if at.ndim > 1 or at.size not in (1, lanes.count) or access.proxy != "generic" or access.size > SECTOR:
            # accesses of bulk copies and MMAs are not those of single threads
            found.bytes += int(at.size) * access.size
            found.threads += lanes.count
            return
        at = np.broadcast_to(at.reshape(-1), lanes.count).astype(np.int64)
        found.bytes += lanes.count * access.size
        found.threads += lanes.count
        found.requests += len(lanes.warps)
        if access.space == ".global":
            found.sectors += sectors(lanes.warp, at)
        elif access.space.startswith(".shared") and (access.kind != "update" or _is_barrier(site)) and access.size in (1, 2, 4, 8, WIDEST):
            passes, conflicts = bank_passes(lanes.warp, lanes.lane, at, access.size)
            found.passes += passes
            found.conflicts += conflicts

    def passed(self, lanes: Lanes, arguments: tuple[Any, ...], token: Any) -> None:
        site = lanes.site  # type: ignore[attr-defined]
        if not _is_wait(site):
            return
        look = self._looks.get(id(site))
        if look is not None:
            self._look(lanes, look, site)
        elif _accesses_memory(site):
            self._gone[id(site)] = lanes
        found = self._waits.setdefault(id(site), [site, 0, 0])
        found[1] += len(lanes.warps)
        found[2] += lanes.count

    def _look(self, lanes: Any, look: Access, site: Site) -> None:
        """Counts the access of lanes that passed an mbarrier. If other lanes polled last, all access the same one."""
        at = look.at if np.size(look.at) == lanes.count else np.broadcast_to(np.ravel(look.at)[:1], lanes.count)
        self._count(attrs.evolve(look, lanes=lanes, at=at), lanes, site)

    @property
    def tables(self) -> dict[str, list[Row]]:
        """The tables by name, each a list of rows: `blocks`, `lines`, `opcodes`, `memory`, `bytes`, `waits`."""
        memory = self._memory()
        return {
            "blocks": self._of_blocks(),
            "lines": self._lines(),
            "opcodes": self._opcodes(),
            "memory": memory,
            "bytes": _by_space(memory),
            "waits": [
                {**self._at(site), "warps": warps, "threads": threads}
                for site, warps, threads in sorted(self._waits.values(), key=self._order)
            ],
        }

    def _order(self, row: list[Any]) -> int:
        return self._line(row[0])

    def _of_blocks(self) -> list[Row]:
        rows: list[Row] = []
        for one in sorted(self._blocks.values(), key=lambda one: (one.body.name, one.block.start)):
            sites = _sites(one)
            if sites:
                rows.append(
                    {
                        "function": one.body.name,
                        "line": self._line(sites[0]),
                        "block": one.body.blocks.index(one.block),
                        "instructions": len(sites),
                        "warps": one.warps,
                        "threads": one.threads,
                        "branches": one.branches,
                        "divergent": one.divergent,
                    }
                )
        return rows

    def _lines(self) -> list[Row]:
        found: dict[tuple[str, int], Row] = {}
        for one in self._blocks.values():
            for site in _sites(one):
                line = self._line(site)
                row = found.setdefault(
                    (one.body.name, line),
                    {"function": one.body.name, "line": line, "opcode": _opcode(site), "instructions": 0, "warps": 0, "threads": 0},
                )
                row["instructions"] += 1  # type: ignore[operator]
                row["warps"] += one.warps  # type: ignore[operator]
                row["threads"] += one.threads  # type: ignore[operator]
        return [found[key] for key in sorted(found)]

    def _opcodes(self) -> list[Row]:
        found: dict[tuple[str, str], Row] = {}
        for one in self._blocks.values():
            for site in _sites(one):
                key = _class(site), _opcode(site)
                row = found.setdefault(key, {"class": key[0], "opcode": key[1], "warps": 0, "threads": 0})
                row["warps"] += one.warps  # type: ignore[operator]
                row["threads"] += one.threads  # type: ignore[operator]
        return [found[key] for key in sorted(found)]

    def _memory(self) -> list[Row]:
        rows: list[Row] = []
        for one in sorted(self._accesses.values(), key=lambda one: (one.site.body.name, self._line(one.site), one.space)):
            counts = {name: getattr(one, name) for name in ("requests", "threads", "bytes", "sectors", "passes", "conflicts")}
            rows.append({**self._at(one.site), "space": one.space.lstrip("."), "kind": one.kind, "width": one.width, **counts})
        return rows

    def _at(self, site: Site) -> Row:
        return {"function": site.body.name, "line": self._line(site), "opcode": _opcode(site)}

    def _line(self, site: Site) -> int:
        return int(self.launch.span(site).line) if self.launch is not None else 0


def sectors(warp: Array, at: Array) -> int:
    """Number of sectors that threads access, counted once for each warp. Each access lies in one sector."""
    return len(np.unique(np.stack([warp, at // SECTOR]), axis=1).T)


def bank_passes(warp: Array, lane: Array, at: Array, size: int) -> tuple[int, int]:
    """Number of passes in which the banks of shared memory serve warps, and how many of these are due to conflicts.

    For 8-byte accesses half a warp is served at once, for 16-byte accesses a quarter; two parts are served together if all threads access
    the same as their neighbor. In one pass, a bank delivers one word to all threads that access it.
    """
    words = max(1, size // 4)
    groups = BANKS // words
    unit = at // (4 * words)
    phase = lane // groups
    if words > 1:
        phase = phase >> _pairs(warp, lane, unit)
    wanted = np.unique(np.stack([warp, phase, unit]), axis=1)
    part = wanted[0] * WARP + wanted[1]
    busy, count = np.unique(np.stack([part, wanted[2] % groups]), axis=1, return_counts=True)
    parts, index = np.unique(busy[0], return_inverse=True)
    most = np.zeros(len(parts), np.int64)
    np.maximum.at(most, index, count)
    passes = int(most.sum())
    return passes, passes - len(parts)


def _pairs(warp: Array, lane: Array, unit: Array) -> Array:
    """For each thread, whether two parts of its warp are served together, that is, whether all threads access the same as the one at
    distance 1, or at distance 2. Absent threads match any."""
    rows, row = np.unique(warp, return_inverse=True)
    wants = np.full((len(rows), WARP), -1, np.int64)
    wants[row, lane] = unit
    together = np.zeros(len(rows), bool)
    for distance in (1, 2):
        beside = wants[:, np.arange(WARP) ^ distance]
        together |= ((wants == beside) | (wants < 0) | (beside < 0)).all(axis=1)
    found: Array = together[row].astype(np.int64)
    return found


def _sites(one: _Block) -> list[Site]:
    """The instructions of a block, including the one at its end."""
    block = one.block
    return one.body.sites[block.start : block.end + (block.last >= 0)]


def _is_barrier(site: Site) -> bool:
    return isinstance(site.bound, Bound) and bool(site.bound.barrier)


def _is_wait(site: Site) -> bool:
    """Whether threads may wait at an instruction, for a barrier or an mbarrier."""
    return isinstance(site.bound, Bound) and any(one.action == "wait" for one in site.bound.barrier)


def _accesses_memory(site: Site) -> bool:
    return isinstance(site.bound, Bound) and bool(site.bound.memory)


def _opcode(site: Site) -> str:
    return site.bound.form.mnemonic if isinstance(site.bound, Bound) else "?"


def _class(site: Site) -> str:
    """The chapter of the instruction table: `integer`, `floating-point`, …"""
    return site.bound.form.file.removesuffix(".isa") if isinstance(site.bound, Bound) else "?"


def _by_space(memory: list[Row]) -> list[Row]:
    found: dict[tuple[str, str], Row] = {}
    for one in memory:
        key = str(one["space"]), str(one["kind"])
        row = found.setdefault(key, {"space": key[0], "kind": key[1], "requests": 0, "threads": 0, "bytes": 0})
        for name in ("requests", "threads", "bytes"):
            row[name] += one[name]  # type: ignore[operator]
    return [found[key] for key in sorted(found)]
