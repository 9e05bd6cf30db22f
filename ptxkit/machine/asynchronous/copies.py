"""`cp.async`, and bulk copies of contiguous bytes (ISA 9.7.10.24.3 to 9.7.10.24.8, 9.7.10.24.12, 9.7.10.24.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptxkit.machine.asynchronous.agents import Flight, Footprint, footprint
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.asynchronous.mbarrier import change
from ptxkit.machine.asynchronous.transfers import BULK, Transfer, in_columns, in_ctas, mbarriers_at, places, tell
from ptxkit.machine.memory.buffer import Buffer
from ptxkit.machine.memory.combining import Combining, combining
from ptxkit.machine.operation import Operation, Semantics

Array = np.ndarray[Any, Any]
COPIES = "cp.async"
"""The queue of `cp.async` groups of a thread."""

_WORDS: dict[int, tuple[np.dtype[Any], int]] = {4: (np.dtype(np.uint32), 1), 8: (np.dtype(np.uint64), 1), 16: (np.dtype(np.uint64), 2)}
_BYTE = np.dtype(np.uint8)


def copy(op: Operation) -> Semantics:
    """`cp.async`: 4, 8 or 16 bytes for each thread, of which only some may be read while the rest is zero."""
    size = int(op.constants["n"])
    dtype, width = _WORDS[size]
    into = op.space("d")

    def run(lanes: Any, given: Any) -> None:
        there, to = places(lanes, into, given.d, size, "write", size, "generic")
        wanted = given.src if given.ignore is None else np.where(given.ignore, 0, size)
        counts = lanes.broadcast(np.asarray(size if wanted is None else wanted, np.int64)[()])
        if (counts > size).any():
            lanes.fault(counts > size, f"cp.async reads more bytes than the {size} it writes", "copy-read-size")
        here, start = _sources(lanes, given.s, counts, size)

        def land(positions: Array) -> None:
            some, memory = lanes.at(positions), lanes.memory
            read = positions[counts[positions] > 0]
            if len(read):
                memory.accessed(lanes.at(read), here, start[read], size, "read", "generic")
            memory.accessed(some, there, to[positions], size, "write", "generic")
            whole = positions[counts[positions] == size]
            if len(whole):
                there.put(to[whole], here.get(start[whole], dtype, width), dtype)
            partly = positions[counts[positions] < size]
            for k in range(size if len(partly) else 0):
                filled = counts[partly] > k
                there.put(to[partly[~filled]] + k, np.uint8(0), _BYTE)
                there.put(to[partly[filled]] + k, here.get(start[partly[filled]] + k, _BYTE), _BYTE)

        footprints = lambda: [footprint(lanes, "read", here, start, counts), footprint(lanes, "write", there, to, size)]  # noqa: E731
        lanes.agents.start(Flight(lanes, land, footprints=footprints), COPIES)

    return Semantics(by_name(op, run), lanes=True)


def _sources(lanes: Any, address: Any, counts: Array, align: int) -> tuple[Buffer, Array]:
    """The positions of the sources. An address from which no bytes are read is not checked."""
    some = np.flatnonzero(counts)
    start = np.zeros(lanes.count, np.int64)
    if len(some):
        chosen = lanes.broadcast(address)[some]
        here, start[some] = places(lanes.at(some), ".global", chosen, counts[some], "read", align, "generic")
        return here, start
    return lanes.memory.globals, start


def commit(op: Operation, queue: str) -> Semantics:
    """Commits a group of what each thread has started since the previous group."""
    return Semantics(lambda lanes: lanes.agents.commit(lanes, queue), lanes=True)


def wait(op: Operation, queue: str) -> Semantics:
    """Waits for all groups but the latest `n`, or for everything."""
    pending = None if op.operand("n") is None else int(op.constants["n"])
    reading = op.has(".read")
    return Semantics(lambda lanes, *_: lanes.agents.wait(lanes, queue, pending, reading), lanes=True)


def arrive(op: Operation) -> Semantics:
    """`cp.async.mbarrier.arrive`: triggers an arrival at an mbarrier when each thread's earlier copies complete (ISA 9.7.14.15.15)."""
    space, counted = op.space("m"), not op.has(".noinc")

    def run(lanes: Any, m: Any) -> None:
        at = mbarriers_at(lanes, space, m, "generic")
        if counted:
            change(lanes, space, m, -1, 0)
        address = lanes.broadcast(m)

        def land(positions: Array) -> None:
            some = lanes.at(positions)
            lanes.agents.complete_before(some, COPIES, flight.number)
            change(some, space, address[positions], 1, 0)

        flight = Flight(lanes, land, at[:, None], after=COPIES)
        lanes.agents.start(flight)

    return Semantics(run, lanes=True)


# -- bulk copies


def bulk(op: Operation) -> Semantics:
    """`cp.async.bulk` and `cp.reduce.async.bulk` of contiguous bytes."""
    change = None
    if op.slot(".op"):
        change = combining(op.slot(".op"), op.type, op.has(".noftz"))
    target, source = op.space("d"), op.space("s")
    kind = "update" if change is not None else "write"

    def run(lanes: Any, given: Any) -> None:
        sizes = lanes.broadcast(np.asarray(given.size, np.int64)[()])
        if (sizes % 16).any():
            lanes.fault(sizes % 16 != 0, "the size of a bulk copy must be a multiple of 16 bytes", "copy-size")
        memory = lanes.memory
        left, right = (lanes.broadcast(np.asarray(x if x is not None else 0, np.int64)[()]) for x in (given.left, given.right))
        here, start = places(
            lanes,
            source,
            lanes.broadcast(given.s) + left.astype(np.uint64),
            sizes - left - right,
            "read",
            1 if op.has(".ignore_oob") else 16,
        )
        start = start - left
        there, to = places(lanes, target, given.d, sizes, kind, 16)
        columns, barriers = to[:, None], None
        if given.mbar is not None:
            barriers = mbarriers_at(lanes, target, given.mbar)[:, None]
        if op.slot(".multicast"):
            mask = lanes.broadcast(given.mask)
            if (mask.astype(np.int64) >> memory.cluster).any():
                lanes.fault(
                    mask.astype(np.int64) >> memory.cluster != 0, f"a multicast to CTAs that a cluster of {memory.cluster} does not have"
                )
            columns = in_ctas(memory, to, mask)
            assert barriers is not None
            barriers = in_ctas(memory, barriers[:, 0], mask)
        kept = _kept(lanes.broadcast(given.mask)) if op.has(".cp_mask") else None
        write = writer(lanes, there, columns, change, kept, left)

        def read(lane: int) -> Array:
            first, size = int(start[lane] + left[lane]), int(sizes[lane] - left[lane] - right[lane])
            tell(lanes, lane, here, first, size, "read")
            return here.span(first, size).copy()

        def footprints() -> list[Footprint]:
            signal = None if barriers is None else barriers[:, 0]
            some = sizes - left - right
            found = in_columns(lanes, kind, there, columns, some, barriers, left)
            return [footprint(lanes, "read", here, start + left, some, signal=signal), *found]

        Transfer(lanes, read, write, barriers, sizes, footprints).start("" if barriers is not None else BULK)

    return Semantics(by_name(op, run), lanes=True)


def _kept(mask: Array) -> Array:
    """For each lane, which of 16 bytes are written."""
    return (mask.astype(np.int64)[:, None] >> np.arange(16) & 1).astype(bool)


def writer(
    lanes: Any, there: Buffer, columns: Array, change: Combining | None, kept: Array | None = None, skip: Array | None = None
) -> Callable[[int, Array], None]:
    """A function that writes `data` to each address in the lane's row, or combines it with the contents."""

    def write(lane: int, data: Array) -> None:
        for at in columns[lane].tolist():
            if at < 0:
                continue
            first = at + (int(skip[lane]) if skip is not None else 0)
            kind = "write" if change is None else "update"
            tell(lanes, lane, there, first, len(data), kind)
            span = there.span(first, len(data))
            if change is not None:
                combine(span, data, change, there is lanes.memory.globals)
            elif kept is not None:
                chosen = np.tile(kept[lane], len(data) // 16)
                span[chosen] = data[chosen]
            else:
                span[:] = data

    return write


def combine(span: Array, data: Array, change: Combining, in_global: bool) -> None:
    """Combines the elements in some bytes with others in separate memory."""
    update = change.update.in_global if in_global and change.update.in_global is not None else change.update
    elements = span.view(change.dtype)
    elements[:] = update.step(elements, data.view(change.dtype))


def bulk_prefetch(op: Operation) -> Semantics:
    """Prefetches have no visible effect, except that those in a group are waited for with it."""
    return Semantics(lambda *_: None)
