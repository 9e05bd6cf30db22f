"""Semantics of `isa/wgmma.isa`: asynchronous matrix multiply-accumulate by a warpgroup (ISA 9.7.16).

A `wgmma.mma_async` is in flight until its group has been waited for. Its registers receive the result at once, since they must not be read
before. At completion its tiles in shared memory are read again, and if they have changed, the result is that of the new contents:
overwriting a tile in use has a visible effect, as on a GPU, if operations complete late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from ptxkit.machine.asynchronous.agents import Flight, Footprint, footprint
from ptxkit.machine.asynchronous.arguments import by_name
from ptxkit.machine.asynchronous.transfers import places
from ptxkit.machine.matrices import descriptors, layouts, sparsity
from ptxkit.machine.matrices.elements import BITS, format_of, unpacked
from ptxkit.machine.matrices.fragments import gathered, scattered, words
from ptxkit.machine.matrices.instructions import FLOATS, REGISTER, product_of, shape_of, types_of
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.types import dtype_of

Array = np.ndarray[Any, Any]

QUEUE = "wgmma"
WARPS = 4
"""Number of warps in a warpgroup."""


def wgmma(op: Operation) -> Semantics:
    """§ 9.7.16.5.2, 9.7.16.6.4, 9.7.16.7."""
    if op.has(".mma_async"):
        return _multiply(op)
    if op.has(".commit_group"):
        return Semantics(lambda lanes: lanes.agents.commit(lanes, QUEUE), lanes=True)
    if op.has(".wait_group"):
        return Semantics(lambda lanes, n: lanes.agents.wait(lanes, QUEUE, int(np.ravel(n)[0])), lanes=True)
    return Semantics(lambda: None)


def _multiply(op: Operation) -> Semantics:
    """§ 9.7.16.5.2, 9.7.16.6.4: D = A·B + D, or A·B."""
    m, n, k = shape_of(op)
    dtype, atype, btype = types_of(op)[:3]
    bits = BITS[atype]
    sparse = op.has(".sp")
    kept = k // 2 if sparse else k
    in_registers = op.width("a") > 1
    transposed_a = not in_registers and op.constants.get("atrans", 0) == 1
    transposed_b = op.constants.get("atrans" if in_registers else "btrans", 0) == 1
    negative = op.constants.get("ascale", 1) * op.constants.get("bscale", 1) == -1
    sign = format_of(atype).sign if negative and atype in FLOATS else 0
    a_layout, d_layout = layouts.multiplicand_a(m, kept, bits), layouts.accumulator(m, n)
    compute = product_of(op, "wgmma", dtype, atype, btype, kept)
    selector = op.constants.get("sel", 0)

    def run(lanes: Any, given: Any) -> Any:
        collect = lanes.by_warpgroup
        there = collect(np.ones(lanes.count, bool))
        if not there.all():
            _incomplete(lanes, there)
        first = collect(np.arange(lanes.count)).max(1)
        rows = np.arange(len(first))
        read_b = _reader(lanes, first, given.b, n, k, bits, not transposed_b)
        if not in_registers:
            read_a = _reader(lanes, first, given.a, m, kept, bits, not transposed_a)
        elif bits == 1:
            held = words(collect, given.a).reshape(-1, 4, 8, 4, 2, 2)  # warps, groups, lanes, steps along K, rows
            fixed = held.transpose(0, 1, 5, 2, 4, 3).reshape(len(first), 64, 8)
            read_a = lambda: fixed  # noqa: E731
        else:
            matrix = gathered(collect, given.a, bits, a_layout)
            read_a = lambda: matrix  # noqa: E731
        chosen = None
        if sparse:
            chosen = sparsity.columns(words(lanes.by_warp, given.meta)[:, :, 0], selector, kept, bits).reshape(len(first), m, kept)
        adds = np.broadcast_to(np.asarray(given.scaled).astype(bool), lanes.count)[first]

        def third() -> Array:
            c = gathered(collect, given.d, BITS[dtype], d_layout).view(dtype_of(dtype))
            return c if adds.all() else np.where(adds[:, None, None], c, c.dtype.type(0))

        def result(a: Array, b: Array, c: Array, which: Array) -> Array:
            of_b = b[which].swapaxes(1, 2)
            return compute(a[which] ^ a.dtype.type(sign), of_b, c[which], None if chosen is None else chosen[which])

        tiles = read_a(), read_b(), third()
        matrices = result(*tiles, rows)
        registers = scattered(lanes.from_warpgroup, matrices, d_layout, REGISTER[dtype])

        def again(positions: Array) -> None:
            """At completion: multiplies again if the tiles have changed."""
            now = read_a(), read_b(), third()
            changed = [(x != y).reshape(len(first), -1).any(1) for x, y in zip(tiles, now, strict=True)]
            which = np.flatnonzero(np.logical_or.reduce(changed))
            if not len(which):
                return
            matrices[which] = result(*now, which)
            mine = np.zeros(lanes.count, bool)
            mine[positions] = True
            for register, value in zip(registers, scattered(lanes.from_warpgroup, matrices, d_layout, REGISTER[dtype]), strict=True):
                register[mine] = value[mine]

        heads = collect(np.arange(lanes.count)).reshape(-1, WARPS, 128 // WARPS)[:, :, 0]

        def footprints() -> list[Footprint]:
            found = [] if in_registers else [_rows_of_a(lanes, first, heads, given.a, m, kept, bits, not transposed_a)]
            return [*found, _chunks(lanes, first, given.b, n, k, bits, not transposed_b)]

        lanes.agents.start(Flight(lanes, again, footprints=footprints), QUEUE)
        return registers

    return Semantics(by_name(op, run), lanes=True)


def _incomplete(lanes: Any, there: Array) -> None:
    """Raises a fault for warpgroups with missing threads, whose parts of the matrices are unknown (ISA 9.7.16.1)."""
    missing = there.shape[1] - there.sum(1)
    mask = lanes.from_warpgroup(np.broadcast_to(missing[:, None] > 0, there.shape))
    reason = f"wgmma.mma_async needs all 128 threads of a warpgroup, but {missing.max()} have exited, have diverged or do not exist"
    lanes.fault(mask, reason, "warpgroup")


def _where(lanes: Any, first: Array, descriptor: Any, size: int, k: int, bits: int, k_major: bool) -> Array:
    """The addresses of the chunks of A or B in shared memory."""
    fields = descriptors.decode(np.broadcast_to(descriptor, lanes.count)[first], "wgmma")
    lines, line = (size, k) if k_major else (k, size)
    return descriptors.addresses(fields, lines, line * bits // 128, k_major)


def _chunks(lanes: Any, first: Array, descriptor: Any, n: int, k: int, bits: int, k_major: bool) -> Footprint:
    """The bytes of B, which all warps read, on behalf of one lane of each warpgroup."""
    where = descriptors.read_of(lanes, _where(lanes, first, descriptor, n, k, bits, k_major))
    readers = np.repeat(first, where[0].size)
    found, at = places(lanes.repeated(readers), ".shared", where.reshape(-1), 16, "read", 16)
    return attrs.evolve(footprint(lanes, "read", found, at, 16, readers), by_all=True)


def _rows_of_a(lanes: Any, first: Array, heads: Array, descriptor: Any, m: int, k: int, bits: int, k_major: bool) -> Footprint:
    """The bytes of A, on behalf of the first lanes of warps (`heads`): each warp reads the rows of D that it holds (ISA 9.7.16.5.1)."""
    where = descriptors.read_of(lanes, _where(lanes, first, descriptor, m, k, bits, k_major))
    line, chunk = np.indices(where.shape[1:])
    row = line if k_major else chunk * (128 // bits)
    readers = heads[:, (row * WARPS // m).reshape(-1)].reshape(-1)
    found, at = places(lanes.repeated(readers), ".shared", where.reshape(-1), 16, "read", 16)
    return footprint(lanes, "read", found, at, 16, readers)


def _reader(lanes: Any, first: Array, descriptor: Any, size: int, k: int, bits: int, k_major: bool) -> Callable[[], Array]:
    """A function that reads A or B: (warpgroups, M or N, K) as bits; words along K for single bits."""
    where = _where(lanes, first, descriptor, size, k, bits, k_major)

    def read() -> Array:
        octets = descriptors.load(lanes, first, where)
        elements = octets.view(np.uint32) if bits == 1 else unpacked(octets, bits)
        return elements if k_major else elements.swapaxes(1, 2)

    return read
