"""Launches, and occupancy. A kernel has completed when the call returns."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

import attrs

from ptxkit.frozen import frozen
from ptxkit.machine.driver.devices import CTAS_OF_MULTIPROCESSOR, MULTIPROCESSORS, REGISTERS, attribute
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.graphs import KERNEL, Node
from ptxkit.machine.driver.interface import LOG, Failure, call
from ptxkit.machine.driver.modules import Function
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.driver.streams import stream_of
from ptxkit.machine.fault import Fault

Dimensions = tuple[int, int, int]

_BUFFER, _SIZE = 1, 2
"""Entries of `extra`: that the parameters are in a buffer, and its size."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16))


class Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_uint64), ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("places", ctypes.c_uint64), ("extra", ctypes.c_uint64), ("kernel", ctypes.c_uint64), ("context", ctypes.c_uint64),
    )  # fmt: skip


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
    )

    def _values(self, name: str) -> tuple[int, int, int]:
        """The first words of an attribute; zeros if it is not given."""
        wanted = numbers("CUlaunchAttributeID")[name]
        for i in range(self.count):
            one = Attribute.from_address(self.attributes + i * ctypes.sizeof(Attribute))
            if one.id == wanted:
                x, y, z = one.value[:3]
                return x, y, z
        return 0, 0, 0

    def cluster(self) -> Dimensions | None:
        """The cluster that the attributes request."""
        found = self._values("CLUSTER_DIMENSION")
        return found if any(found) else None

    def is_cooperative(self) -> bool:
        """Whether the attributes request a cooperative launch."""
        return bool(self._values("COOPERATIVE")[0])


def _parameters(function: Function, places: int, extra: int) -> list[bytes]:
    """The bytes of each parameter, from separate addresses, or from one buffer."""
    layout = function.parameters
    if places:
        addresses = (ctypes.c_uint64 * len(layout)).from_address(places)
        if not all(addresses):
            raise Failure("INVALID_VALUE", f"a parameter of `{function.name}` has no address")
        return [ctypes.string_at(address, size) for address, (_, size) in zip(addresses, layout, strict=True)]
    if not layout:
        return []
    if not extra:
        raise Failure("INVALID_VALUE", f"`{function.name}` has parameters, and none are given")
    buffer = size = 0
    while key := ctypes.c_uint64.from_address(extra).value:
        value = ctypes.c_uint64.from_address(extra + 8).value
        buffer = value if key == _BUFFER else buffer
        size = ctypes.c_uint64.from_address(value).value if key == _SIZE else size
        extra += 16
    if not buffer or any(at + length > size for at, length in layout):
        raise Failure("INVALID_VALUE", f"the buffer of the parameters of `{function.name}` is too small")
    return [ctypes.string_at(buffer + at, length) for at, length in layout]


@frozen(eq=False)
class Prepared:
    """A launch with all its inputs: `data` are the bytes of each parameter."""

    handle: int
    function: Function
    grid: Dimensions
    block: Dimensions
    shared: int
    data: list[bytes]
    cluster: Dimensions | None
    cooperative: bool = False
    """Whether its CTAs may wait for each other."""

    def run(self) -> None:
        """Runs the kernel. A fault is reported by later calls, as for an asynchronous launch."""
        _run(self)


def prepared(
    handle: int, grid: Dimensions, block: Dimensions, shared: int, places: int, extra: int, cluster: Dimensions | None = None
) -> Prepared:
    """A launch of a kernel with the current values of its parameters. Raises `Failure` for an invalid launch."""
    STATE.current()
    function = STATE.of(handle, Function)
    if not all((*grid, *block)) or block[0] * block[1] * block[2] > attribute("MAX_THREADS_PER_BLOCK"):
        raise Failure("INVALID_VALUE", f"a grid of {grid} and a block of {block}")
    if shared > function.attribute(numbers("CUfunction_attribute")["MAX_DYNAMIC_SHARED_SIZE_BYTES"]):
        raise Failure("INVALID_VALUE", f"{shared} bytes of dynamic shared memory are more than `{function.name}` was given")
    return Prepared(handle, function, grid, block, shared, _parameters(function, places, extra), cluster)


def _run(one: Prepared) -> None:
    settings, machine = STATE.settings, STATE.machine
    STATE.launches += 1
    try:
        run = machine.launch(
            one.function.code, one.function.name, *one.data,
            grid=one.grid, block=one.block, cluster=one.cluster, shared=one.shared, cooperative=one.cooperative,
            checks=settings.checks, schedule=settings.schedule, budget=settings.seconds,
        )  # fmt: skip
    except Fault as fault:
        if fault.kind in ("launch", "shared", "extern", "memory"):
            raise Failure("INVALID_VALUE" if fault.kind != "memory" else "OUT_OF_MEMORY", fault.reason) from None
        LOG.append(str(fault))
        STATE.spoil(fault)
        return
    STATE.found(run.findings)
    if run.output:
        sys.stdout.flush()
        os.write(1, run.output.encode())


def kernel_node(one: Prepared) -> Node:
    """A graph node that runs a kernel with the parameters of a launch."""
    # getters return pointers to copies: the caller's memory may be gone by then
    pieces = [ctypes.create_string_buffer(piece, len(piece)) for piece in one.data]
    places = (ctypes.c_uint64 * max(1, len(pieces)))(*[ctypes.addressof(piece) for piece in pieces])
    given = Kernel(one.handle, one.grid, one.block, one.shared, ctypes.addressof(places))
    return Node(KERNEL, one.run, given=given, kept=(pieces, places), cluster=one.cluster)


def launch(stream: int, one: Prepared) -> None:
    """Runs a kernel, or adds it to the graph that the stream is captured to."""
    captured = stream_of(stream).captured
    if captured is None:
        one.run()
        return
    captured.add(kernel_node(one))


@call("q u u u u u u u q q q", settles=True)
def cuLaunchKernel(
    function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, places: int, extra: int
) -> None:
    launch(stream, prepared(function, (gx, gy, gz), (bx, by, bz), shared, places, extra))


@call("q u u u u u u u q q", settles=True)
def cuLaunchCooperativeKernel(
    function: int, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, shared: int, stream: int, places: int
) -> None:
    launch(stream, attrs.evolve(prepared(function, (gx, gy, gz), (bx, by, bz), shared, places, 0), cooperative=True))


@call("q q q q", settles=True)
def cuLaunchKernelEx(config: int, function: int, places: int, extra: int) -> None:
    one = Config.from_address(config)
    grid: Any = tuple(one.grid)
    block: Any = tuple(one.block)
    made = prepared(function, grid, block, one.shared, places, extra, one.cluster())
    launch(one.stream, attrs.evolve(made, cooperative=one.is_cooperative()))


# --- occupancy


def resident(function: Function, threads: int, shared: int) -> int:
    """The number of a kernel's CTAs that fit on a multiprocessor."""
    if threads < 1 or threads > function.threads:
        return 0
    warps = -(-threads // 32)
    limits = [
        attribute("MAX_THREADS_PER_MULTIPROCESSOR") // (warps * 32),
        CTAS_OF_MULTIPROCESSOR.get(STATE.architecture, 32),
        REGISTERS // (warps * 32 * function.registers),
    ]
    if bytes_ := function.shared + shared:
        limits.append(attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR") // (bytes_ + attribute("RESERVED_SHARED_MEMORY_PER_BLOCK")))
    return min(limits)


@call("*i q i q")
def cuOccupancyMaxActiveBlocksPerMultiprocessor(function: int, threads: int, shared: int) -> int:
    return resident(STATE.of(function, Function), threads, shared)


@call("*i q i q u")
def cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(function: int, threads: int, shared: int, flags: int) -> int:
    return resident(STATE.of(function, Function), threads, shared)


def _best(function: int, shared_of: int, shared: int, limit: int) -> tuple[int, int]:
    """The smallest grid that fills the device, and the block size for it."""
    one = STATE.of(function, Function)
    ask = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_int)(shared_of) if shared_of else lambda _: shared
    sizes = range(min(limit or 1024, one.threads) // 32 * 32, 0, -32)
    best = max(sizes, key=lambda size: resident(one, size, ask(size)) * size, default=32)
    return resident(one, best, ask(best)) * MULTIPROCESSORS, best


@call("*i *i q q q i")
def cuOccupancyMaxPotentialBlockSize(function: int, shared_of: int, shared: int, limit: int) -> tuple[int, int]:
    return _best(function, shared_of, shared, limit)


@call("*i *i q q q i u")
def cuOccupancyMaxPotentialBlockSizeWithFlags(function: int, shared_of: int, shared: int, limit: int, flags: int) -> tuple[int, int]:
    return _best(function, shared_of, shared, limit)


@call("*q q i i")
def cuOccupancyAvailableDynamicSMemPerBlock(function: int, blocks: int, threads: int) -> int:
    one = STATE.of(function, Function)
    if blocks < 1:
        raise Failure("INVALID_VALUE")
    most = attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR") // blocks - attribute("RESERVED_SHARED_MEMORY_PER_BLOCK") - one.shared
    return max(0, min(most, one.attribute(numbers("CUfunction_attribute")["MAX_DYNAMIC_SHARED_SIZE_BYTES"])))


@call("*i q q")
def cuOccupancyMaxPotentialClusterSize(function: int, config: int) -> int:
    STATE.of(function, Function)
    return 8


@call("*i q q")
def cuOccupancyMaxActiveClusters(function: int, config: int) -> int:
    one, asked = STATE.of(function, Function), Config.from_address(config)
    x, y, z = asked.cluster() or (1, 1, 1)
    threads = asked.block[0] * asked.block[1] * asked.block[2]
    return resident(one, threads, asked.shared) * MULTIPROCESSORS // (x * y * z)
