"""Uninitialized values: registers read before they are written, bytes that were never written, or not since their line was discarded,
shuffles from absent lanes.

Reading them is not an error: a compiler may load a whole vector and use half of it, and copies include padding. As in memory sanitizers,
the value is tracked through registers, shuffles, and shared, local and global memory (by byte) until it is *used*:

* it decides a branch, or the guard of an instruction that accesses memory or synchronizes; * it is an address; * it is stored to global
memory.

A result is undefined if an operand is, unless another operand decides the result (`selp`, `and`, `or`, comparisons combined with a
predicate, `x ^ x`). A vector or word with some defined bytes is taken to be defined, and so are results that a warp computes together and
data of asynchronous copies; some uses are therefore missed. A matrix that a warp loads together, an operand of an MMA in shared memory and
the source of a bulk store count as used when they are read: a warning (R008) if no byte of it has been written; for a bulk copy of
contiguous bytes, if 16 consecutive bytes have not been written. An MMA uses an accumulator in tensor memory if it adds to it.

Initially undefined are registers, shared and local memory (R001, R008), memory from `malloc`, and buffers that the host allocated and did
not write (R008, a warning, since here they contain zeros). Global variables are zero by the ISA. A shuffle from a lane that is absent, or
not in the mask, is C006 (9.7.10.6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.diagnostics import Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.following import Plan, Undefined
from ptxkit.machine.matrices.tensor_memory import CELL, COLUMNS, LANES
from ptxkit.machine.matrices.tensor_memory import SPACE as TENSOR
from ptxkit.machine.monitoring import Monitor
from ptxkit.machine.monitors.cells import Cells
from ptxkit.machine.monitors.collected import Collected, Rule, bytes_of, spoken_range, spoken_thread
from ptxkit.machine.monitors.pieces import expanded
from ptxkit.machine.plans import FIRST
from ptxkit.machine.semantics._shuffling import sources
from ptxkit.machine.values.distinct import distinct_numbers
from ptxkit.syntax import Name

if TYPE_CHECKING:
    from ptxkit.machine.asynchronous.agents import Flight, Footprint
    from ptxkit.machine.code import Body, Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Launch, Residents
    from ptxkit.machine.memory import Access

Array = np.ndarray[Any, Any]
REGISTER: Rule = ("R001", "uninitialised-register")
MEMORY: Rule = ("R008", "uninitialised-memory")
SHUFFLE: Rule = ("C006", "shfl-from-inactive-lane")
NEVER, WRITTEN = 0, 1
"""Shadow values of bytes that have not been written, and of defined bytes. Larger values identify the origin of an undefined value."""
MOST = 250
"""Maximum number of distinguished origins."""


@frozen(eq=False)
class _Origin:
    """The origin of an undefined value: a register, bytes of memory, or a lane."""

    rule: Rule
    says: Callable[[], tuple[str, str]]
    """What the value is, and why it is undefined; computed only if the value is used."""
    site: Site | None
    space: str = ""
    variable: str = ""
    offset: int = 0
    bytes: int = 0
    severity: Severity = Severity.ERROR
    here: str = "the value comes from here"
    """What happens at the site."""


_USES = {
    "branch": "branches on {}",
    "address": "uses {} as an address",
    "guard": "uses {} as a guard",
    "output": "stores {} to global memory",
}
"""By how an undefined value is used, what the thread does."""


class Uninitialized(Monitor):
    """Tracks undefined values to their uses."""

    follows_undefined = True
    residents: Residents
    undefined: Undefined
    _threads: Array

    def begin(self, launch: Launch) -> None:
        self.launch = launch
        self.collected = Collected(launch)
        self.undefined = launch.program.undefined
        self.undefined.clear()
        self.undefined.loaded.clear()
        self.undefined.monitor = self
        self._origins: list[_Origin] = []
        self._known: dict[Any, int] = {}
        self._first = -1
        self._shadows: dict[str, Array] = {}
        memory = launch.machine.memory
        self._fresh = sorted(memory.unwritten)
        self._discards = any(bound.form.mnemonic == "discard" for body in launch.program.entered for bound in body.forms)

    @property
    def findings(self) -> list[Finding]:
        return self.collected.findings

    def end(self, launch: Launch) -> None:
        self.undefined.clear()
        self.undefined.loaded.clear()
        self.undefined.monitor = None
        for shadow in launch.machine.memory.unwritten.values():
            # the origins are those of this launch
            shadow[shadow > WRITTEN] = NEVER

    def resident(self, residents: Residents) -> None:
        memory = self.launch.machine.memory
        if self._first == residents.first:
            before = len(self._threads)
            self._threads = np.ones(residents.count, bool)
            for key, column in list(self.undefined.items()):
                self.undefined[key] = np.concatenate([column, np.zeros(residents.count - before, np.uint8)])
            for space, buffer in ((".shared", memory.shared), (".local", memory.local)):
                old = self._shadows[space]
                self._shadows[space] = np.concatenate([old, np.zeros(len(buffer.data) - len(old), np.uint8)])
            self._begin_registers(slice(before, None))
            return
        self.residents, self._first = residents, residents.first
        self._cells = Cells()
        self._threads = np.ones(residents.count, bool)
        self.undefined.clear()
        for space, buffer in ((".shared", memory.shared), (".local", memory.local)):
            self._shadows[space] = _nothing_written(self._shadows.get(space), len(buffer.data))
        self._begin_registers(slice(None))

    def _begin_registers(self, threads: slice) -> None:
        """Marks registers that are live at the start of a function as undefined, since they may be read before they are written."""
        for body in self.launch.program.entered:
            if not body.blocks:
                continue
            formals = {number for _, number in body.formals}
            for number in body.blocks[0].registers:
                if number < FIRST or number in formals:
                    continue
                column = self.undefined.setdefault(self.undefined.key(body, number), np.zeros(len(self._threads), np.uint8))
                column[threads] = self.never(body, number)

    def never(self, body: Body, number: int) -> int:
        """The origin of a register that nothing has written."""

        def made() -> _Origin:
            return _Origin(REGISTER, lambda: (_name_of(body, number), "nothing has written it"), None)

        return self._origin(("register", id(body), number), made)

    def _origin(self, key: Any, make: Any) -> int:
        """The number of an origin, from 2 on."""
        found = self._known.get(key)
        if found is None:
            if len(self._origins) >= MOST:
                return len(self._origins) + 1
            self._origins.append(make())
            found = self._known[key] = len(self._origins) + 1
        return found

    # --- memory

    def access(self, access: Access) -> None:
        space = ".shared" if access.space.startswith(".shared") else access.space
        shadow: Array | None
        if space == ".global":
            if not self._fresh and not self._discards and not self.launch.machine.memory.unwritten and not self.undefined.loaded:
                return
            self._in_global(access)
            return
        if space == TENSOR and access.kind == "write":
            self._cells.mark(np.asarray(access.at) // CELL, "dealloc" not in access.lanes.site.bound.effects)
            return
        shadow = self._shadows.get(space)
        if shadow is None:
            return
        self._bytes(access, shadow, access.at, access.lanes, space)

    def _in_global(self, access: Access) -> None:
        lanes = access.lanes
        stored = self.undefined.loaded.get("stored")
        if access.kind != "read" and stored is not None and stored[0] is getattr(lanes, "site", None):
            self._output(access, stored)
        if self._discards and lanes.site.bound.form.mnemonic == "discard":
            self._discarded(access)
            return
        unwritten = self.launch.machine.memory.unwritten
        if not unwritten:
            return
        at = np.broadcast_to(np.asarray(access.at, np.int64), lanes.count)
        for start, shadow in list(unwritten.items()):
            inside = np.flatnonzero((at >= start) & (at < start + len(shadow)))
            if len(inside):
                self._bytes(access, shadow, at[inside] - start, lanes.at(inside), ".global", start)

    def _discarded(self, access: Access) -> None:
        """Bytes of lines that are discarded are undefined until they are written again (9.7.10.16)."""
        memory, site = self.launch.machine.memory, access.lanes.site
        says = "a discarded line", f"`{site.bound.opcode}` left it undefined"
        origin = self._origin(
            ("discard", id(site)), lambda: _Origin(MEMORY, lambda: says, site, ".global", here="its line is discarded here")
        )
        for at in np.atleast_1d(access.at).tolist():
            found = memory.allocations.containing(at)
            shadow = memory.unwritten.get(found.start)
            if shadow is None:
                shadow = memory.unwritten[found.start] = np.full(found.size, WRITTEN, np.uint8)
            shadow[at - found.start : at - found.start + access.size] = origin

    def _bytes(self, access: Access, shadow: Array, at: Any, lanes: Any, space: str, start: int = 0) -> None:
        size = access.size
        site = getattr(lanes, "site", None)
        if access.kind == "read":
            plan = self.undefined.plans.get(id(site))
            if plan is not None and plan.bound.converges is not None and space == ".shared":
                self._matrix(plan.site, lanes, shadow, at, size)
            if plan is None or not plan.loads:
                return
            found = _all_written(shadow, at, size)
            if found is not True:
                self._read(plan, lanes, shadow, at, size, space, start)
            return
        stored = self.undefined.loaded.get("stored")
        value: Any = WRITTEN
        if stored is not None and stored[0] is site and stored[1].count >= lanes.count:
            value = np.maximum(stored[2], WRITTEN)
            if lanes.count != stored[1].count:
                value = value[np.searchsorted(stored[1].place, lanes.place)]
        if access.kind == "update":
            plan = self.undefined.plans.get(id(site))
            if plan is not None and plan.loads and _all_written(shadow, at, size) is not True:
                self._read(plan, lanes, shadow, at, size, space, start)
            if plan is not None and not plan.bound.has(".exch"):
                return
        _mark(shadow, at, size, value)

    def _read(self, plan: Plan, lanes: Any, shadow: Array, at: Any, size: int, space: str, start: int) -> None:
        """Handles a load of partly undefined bytes: determines the elements that are entirely undefined."""
        count = max(1, len(plan.writes)) if plan.bound.memory[0].access == "read" else 1
        each = size // count
        where = np.broadcast_to(np.asarray(at, np.int64), lanes.count)
        found = []
        for element in range(count):
            first = where + element * each
            undefined, source = _origins_at(shadow, first, each)
            never = np.flatnonzero(undefined & (source == NEVER))
            if len(never):
                at_first = int(first[never[0]])
                severity = Severity.WARNING if space == ".global" else Severity.ERROR
                origin = self._origin(
                    ("memory", id(plan.site), element),
                    lambda at_first=at_first, severity=severity: self._bytes_of(plan.site, space, start + at_first, each, severity),
                )
                source[never] = origin
            found.append(np.where(undefined, source, 0).astype(np.uint8))
        self.undefined.loaded.setdefault("loaded", []).append((lanes, found))

    # --- matrices, and what is copied from shared memory

    def _matrix(self, site: Site, lanes: Any, shadow: Array, at: Any, size: int) -> None:
        """Checks a matrix, or part of one, that a warp loads together: eight rows of 16 bytes, or the data of all lanes."""
        if size == 16:
            matrix = lanes.warp * 4 + lanes.lane // 8
        else:
            matrix = lanes.warp
        at = np.broadcast_to(np.asarray(at, np.int64), lanes.count)
        self._operand(site, lanes, np.arange(lanes.count), matrix, at, size, shadow, "loads a matrix from")

    def started(self, flight: Flight) -> None:
        """Checks an operation that starts and reads shared memory: an MMA or a copy."""
        site, lanes = getattr(flight.lanes, "site", None), flight.lanes
        shadow = self._shadows.get(".shared")
        if flight.footprints is None or site is None or shadow is None:
            return
        if shadow.all() and site.bound.form.mnemonic != "tcgen05":
            return
        is_row = site.bound.form.mnemonic == "cp" and not site.bound.has(".tensor")
        for one in flight.footprints():
            if one.space == TENSOR and len(one.at):
                self._accumulator(site, lanes, one)
            if one.kind != "read" or not one.space.startswith(".shared") or not len(one.at):
                continue
            if (one.size == 16).all():
                self._operand(site, lanes, one.lane, one.lane, one.at, 16, shadow, "multiplies a matrix from")
                continue
            for lane, first, size in zip(one.lane.tolist(), one.at.tolist(), one.size.tolist(), strict=True):
                chunks = shadow[first : first + size // 16 * 16].reshape(-1, 16)
                missing = np.flatnonzero((chunks == NEVER).all(axis=1))
                if len(missing) and (is_row or len(missing) == len(chunks)):
                    self._unwritten(site, lanes, lane, first + 16 * int(missing[0]), 16, "copies", len(missing))

    def _accumulator(self, site: Site, lanes: Any, one: Footprint) -> None:
        """Reports an MMA that adds to an accumulator in tensor memory of which nothing has been written."""
        adds = one.kind == "update" and isinstance(site.bound, Bound) and site.bound.has(".mma")
        for lane in distinct_numbers(one.lane).tolist() if adds else ():
            mine = one.lane == lane
            at, size = one.at[mine], one.size[mine]
            if self._cells.has_written(expanded(at, size, 0, CELL)[0]):
                continue
            cell = int(at[0]) // CELL
            does = f"adds to an accumulator at lane {cell // COLUMNS % LANES}, column {cell % COLUMNS} of tensor memory"
            witness = {"space": "tensor", "variable": "", "offset": int(at[0]), "bytes": int(size.sum())}
            self._report_unwritten(site, lanes, lane, does, witness, 1)
        if one.kind != "read":
            self._cells.mark(expanded(one.at, one.size, 0, CELL)[0], True)

    def _operand(self, site: Site, lanes: Any, lane: Array, matrix: Array, at: Array, size: int, shadow: Array, verb: str) -> None:
        """Checks rows of matrices, each with a lane and the number of its matrix: reports a matrix of which no byte has been written."""
        rows = shadow[at[:, None] + np.arange(size)].any(axis=1)
        if rows.all():
            return
        _, position = np.unique(matrix, return_inverse=True)
        missing = np.bincount(position, ~rows) == np.bincount(position)
        if missing.any():
            row = int(np.flatnonzero(missing[position])[0])
            self._unwritten(site, lanes, int(lane[row]), int(at[row]), size, verb, int(np.count_nonzero(missing)))

    def _unwritten(self, site: Site, lanes: Any, lane: int, at: int, size: int, verb: str, count: int) -> None:
        variable, offset = self.collected.names.variable(".shared", at)
        witness = {"space": "shared", "variable": variable, "offset": offset, "bytes": size}
        self._report_unwritten(site, lanes, lane, f"{verb} {spoken_range(variable, '.shared', offset, size)}", witness, count)

    def _report_unwritten(self, site: Site, lanes: Any, lane: int, does: str, witness: dict[str, Any], count: int) -> None:
        if self.collected.knows((id(site), "unwritten"), count):
            return
        who = f"`{getattr(site.bound, 'opcode', '')}` of {spoken_thread(*self.collected.thread(lanes, lane))}"
        assert isinstance(site.bound, Bound)
        self.collected.add(
            (id(site), "unwritten"),
            MEMORY,
            f"{who} {does}, but {_unwritten_by_any(witness['bytes'])}",
            site,
            {"accesses": [self.collected.access(lanes, lane, "read", site)], **witness},
            severity=Severity.WARNING,
            count=count,
        )

    def _bytes_of(self, site: Site, space: str, at: int, size: int, severity: Severity) -> _Origin:
        if space == ".local":
            offset = self.launch.machine.memory.owner(space, at)[1]
            variable = self._local(site, offset)
        else:
            variable, offset = self.collected.names.variable(space, at)
        text = spoken_range(variable, space, offset, size)
        here = f"{bytes_of(size)} are read here"
        return _Origin(MEMORY, lambda: (text, _unwritten_by_any(size)), site, space, variable, offset, size, severity, here)

    def _local(self, site: Site, offset: int) -> str:
        program = self.launch.program
        for symbol in site.body.variables:
            start = program.frame_offset(site.body, symbol)
            if site.body is program.entry and symbol.space == ".local" and start == offset:
                return str(symbol.name)
        return ""

    # --- registers

    def passed(self, lanes: Any, arguments: tuple[Any, ...], token: Any) -> None:
        undefined = self.undefined
        plan = undefined.plans.get(id(lanes.site))
        if plan is None:
            return
        bound = plan.bound
        whole = len(lanes.warps) * 32 == lanes.count
        if bound.lane:
            self._shuffled(plan, lanes, arguments, whole)
        elif undefined and not plan.keys.isdisjoint(undefined):
            undefined.step(plan, lanes, arguments)

    def _shuffled(self, plan: Plan, lanes: Any, arguments: tuple[Any, ...], whole: bool) -> None:
        """The results of a shuffle from lanes that are absent, or not in the mask, are undefined; others are as defined as their source."""
        undefined = self.undefined
        bound = plan.bound
        _, b, c, *rest = arguments
        mask = rest[-1] if rest and bound.members is not None else np.uint32(0xFFFFFFFF)
        full = not getattr(mask, "ndim", 0) and int(mask) & 0xFFFFFFFF == 0xFFFFFFFF
        touched = undefined and not plan.keys.isdisjoint(undefined)
        if whole and full and not touched:
            return
        source, _ = sources(bound.slot(".mode"), lanes, b, c)
        rows = len(lanes.warps)
        source = np.broadcast_to(source, (rows, 32))
        absent = ~np.take_along_axis(lanes.active, source, axis=1)
        if not full:
            masks = lanes.by_warp(lanes.broadcast(np.asarray(mask).astype(np.uint32)[()]))
            absent |= (masks >> source.astype(np.uint32)) & 1 == 0
        mine = next((read for read in plan.reads if read.name == "a"), None)
        values = undefined.of(mine.keys, lanes) if mine is not None else None
        result = np.zeros((rows, 32), np.uint8)
        if values is not None:
            result = np.take_along_axis(lanes.by_warp(values), source, axis=1)
        others = [undefined.of(read.keys, lanes) for read in plan.reads if read.name in [operand.name for operand in bound.lane]]
        found = lanes.from_warp(result)
        for other in others:
            if other is not None:
                found = np.maximum(found, other)
        taken = lanes.from_warp(absent)
        if taken.any():
            lane = int(np.flatnonzero(taken)[0])
            origin = self._origin(
                ("lane", id(plan.site)),
                lambda: _Origin(
                    SHUFFLE,
                    lambda: (
                        f"the result of `{bound.opcode}`",
                        f"lane {int(lanes.from_warp(source)[lane])}, which it reads, is inactive or not in the mask",
                    ),
                    plan.site,
                ),
            )
            found = np.where(taken, origin, found)
        first = plan.writes[:1]
        for key in first:
            undefined.put(key, lanes, found if found.any() else None)
        for key in plan.writes[1:]:
            undefined.put(key, lanes, None)

    # --- called by `Undefined`

    def landed(self, plan: Plan, loaded: dict[str, Any]) -> None:
        """Called after an instruction that loaded undefined bytes."""
        for lanes, found in loaded.get("loaded", ()):
            for key, values in zip(plan.writes, found, strict=False):
                if values.any():
                    self.undefined.put(key, lanes, values)

    def used(self, plan: Plan, lanes: Any, source: Array, how: str) -> None:
        self.used_at(plan.site, lanes, source, how)

    def used_at(self, site: Site, lanes: Any, source: Array, how: str) -> None:
        """An undefined value is used: by a branch, as an address, or as a guard."""
        self._found(site, lanes, source, how)

    def _output(self, access: Access, stored: tuple[Any, Any, Array]) -> None:
        """An undefined value is stored to global memory."""
        lanes = access.lanes
        source = stored[2] if lanes.count == stored[1].count else stored[2][np.searchsorted(stored[1].place, lanes.place)]
        if source.any():
            self._found(stored[0], lanes, source, "output")

    def _found(self, site: Site, lanes: Any, source: Array, how: str) -> None:
        for number in distinct_numbers(source[source > 0]).tolist():
            origin = self._origins[min(number - 2, len(self._origins) - 1)]
            mine = np.flatnonzero(source == number)
            cause = (id(origin), id(site) if origin.site is None else id(origin.site))
            if self.collected.knows(cause, len(mine)):
                continue
            lane = int(mine[0])
            who = spoken_thread(*self.collected.thread(lanes, lane))
            is_elsewhere = origin.site is not None and origin.site is not site
            value, why = origin.says()
            line = f" (line {self.collected.line(origin.site)})" if is_elsewhere else ""
            read = [self.collected.access(lanes, lane, "read", origin.site)] if origin.site is not None else []
            self.collected.add(
                cause,
                origin.rule,
                f"{who} {_USES[how].format(value)}, but {why}{line}",
                site,
                {
                    "accesses": [*read, self.collected.access(lanes, lane, "use", site)],
                    "use": how,
                    "space": origin.space.removeprefix("."),
                    "variable": origin.variable,
                    "offset": origin.offset,
                    "bytes": origin.bytes,
                },
                severity=origin.severity,
                related=[(origin.site, origin.here)] if origin.site is not None and origin.site is not site else (),
                count=len(mine),
            )


def _nothing_written(shadow: Array | None, size: int) -> Array:
    """A shadow of bytes that have not been written, reusing memory of the same size."""
    if shadow is None or len(shadow) != size:
        return np.zeros(size, np.uint8)
    shadow.fill(NEVER)
    return shadow


def _name_of(body: Body, number: int) -> str:
    """The name of a register in a function, as messages quote it."""
    names: dict[int, str] | None = body.known.get(_name_of)
    if names is None:
        names = body.known[_name_of] = {}
        for site in body.sites:
            for name in site.instruction.find(Name):
                for named in body.registers_of(site.scope, name):
                    names.setdefault(named, f"`{name.text}`")
    return names.get(number, "a register")


_ONES: dict[int, Any] = {1: np.uint8(1), 2: np.uint16(0x0101), 4: np.uint32(0x01010101), 8: np.uint64(0x0101010101010101)}


def _all_written(shadow: Array, at: Any, size: int) -> Any:
    """Whether all bytes of an access have been written."""
    ones = _ONES.get(size)
    if ones is not None:
        held = shadow.view(ones.dtype)[np.asarray(at) >> (size.bit_length() - 1)]
        return bool((held == ones).all())
    if size == 16:
        words = shadow.view(np.uint64)
        first = np.asarray(at) >> 3
        return bool((words[first] == _ONES[8]).all() and (words[first + 1] == _ONES[8]).all())
    return all((shadow[one : one + size] == WRITTEN).all() for one in np.atleast_1d(at).tolist())


def _mark(shadow: Array, at: Any, size: int, value: Any) -> None:
    """Marks bytes as written, with a defined value or with undefined ones of some origin."""
    if not getattr(value, "ndim", 0):
        ones = _ONES.get(size)
        if ones is not None:
            shadow.view(ones.dtype)[np.asarray(at) >> (size.bit_length() - 1)] = ones
            return
        if size == 16:
            words, first = shadow.view(np.uint64), np.asarray(at) >> 3
            words[first] = words[first + 1] = _ONES[8]
            return
        for one in np.atleast_1d(at).tolist():
            shadow[one : one + size] = WRITTEN
        return
    where = np.broadcast_to(np.asarray(at, np.int64), len(value))
    ones = _ONES.get(size)
    if ones is not None:
        shadow.view(ones.dtype)[where >> (size.bit_length() - 1)] = value * ones
        return
    shadow[where[:, None] + np.arange(size)] = value[:, None]


def _origins_at(shadow: Array, at: Array, size: int) -> tuple[Array, Array]:
    """For each of these addresses, whether none of its bytes is defined, and the largest shadow value of them."""
    ones = _ONES.get(size)
    if ones is not None:
        words = shadow.view(ones.dtype)[at >> (size.bit_length() - 1)]
        source = words.astype(np.uint8)
        if (source * ones == words).all():
            return source != WRITTEN, source
    held = shadow[at[:, None] + np.arange(size)]
    return (held != WRITTEN).all(axis=1), held.max(axis=1).astype(np.uint8)


def _unwritten_by_any(size: int) -> str:
    """That no thread has written so many bytes."""
    return f"no thread has written {'this byte' if size == 1 else 'these bytes'}"
