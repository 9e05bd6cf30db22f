"""Data movement (ISA 9.7.10), except conversions and asynchronous copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.memory import windows
from ptxkit.machine.memory.combining import combining
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.semantics._moves import mov, shfl
from ptxkit.machine.types import dtype_of

__all__ = ["mov", "shfl"]

_U64 = np.dtype(np.uint64)


def ld(op: Operation) -> Semantics:
    """Loads from memory (ISA 9.7.10.8, 9.7.10.9)."""
    space, dtype, width = op.space("a"), dtype_of(op.type), op.width("d")

    def run(lanes: Any, a: Any, *_: Any) -> Any:
        return lanes.load(space, a, dtype, width)

    if op.operand("d") is not None and op.operand("d").shape.kind == "vector" and width == 1:  # type: ignore[union-attr]
        return Semantics(lambda lanes, a, *_: (lanes.load(space, a, dtype),), lanes=True)
    return Semantics(run, lanes=True, parts_address=space in (".global", ".shared"))


def ldu(op: Operation) -> Semantics:
    """Loads read-only data (ISA 9.7.10.10)."""
    return ld(op)


def st(op: Operation) -> Semantics:
    """Stores to memory (ISA 9.7.10.11); `st.async` and `st.bulk` are asynchronous (ISA 9.7.10.12)."""
    if op.has(".async"):
        from ptxkit.machine.asynchronous.stores import store_asynchronously

        return store_asynchronously(op)
    space, dtype = op.space("a"), dtype_of(op.type)
    if op.has(".bulk"):
        return Semantics(_zero(space), lanes=True)

    def run(lanes: Any, a: Any, b: Any, *_: Any) -> None:
        lanes.store(space, a, b)

    return Semantics(run, reads={"b": dtype}, lanes=True)


def _zero(space: str) -> Any:
    def run(lanes: Any, a: Any, size: Any, *_: Any) -> None:
        address, sizes = lanes.broadcast(a), lanes.broadcast(size)
        for lane in range(lanes.count):
            one = lanes.subset(np.array([lane]))
            for buffer, at, _mine in lanes.memory.locate(one, space, address[lane : lane + 1], int(sizes[lane]), "write", 8):
                buffer.span(int(at[0]), int(sizes[lane]))[:] = 0

    return run


def multimem(op: Operation) -> Semantics:
    """Memory behind a multimem address (ISA 9.7.10.13). With one device, this is one location, and a reduction over it is its value."""
    if op.has(".async"):
        from ptxkit.machine.asynchronous.stores import reduce_asynchronously, store_asynchronously

        return store_asynchronously(op) if op.has(".st") else reduce_asynchronously(op)
    space, dtype, width = op.space("a"), dtype_of(op.type), op.width("d") if op.operand("d") else op.width("b")
    if op.has(".ld_reduce"):
        return Semantics(lambda lanes, a: lanes.load(space, a, dtype, width), lanes=True)
    if op.has(".st"):
        return Semantics(lambda lanes, a, b: lanes.store(space, a, b), reads={"b": dtype}, lanes=True)
    change = combining(op.slot(".op"), op.type, True)
    silent = change.update.silent()
    size = max(1, dtype.itemsize // change.dtype.itemsize) * change.dtype.itemsize

    def run(lanes: Any, a: Any, b: Any) -> None:
        values = b if isinstance(b, tuple) else (b,)
        address = np.asarray(a, np.uint64)
        for j, value in enumerate(values):
            for k, part in enumerate(elements(value, change.dtype)):
                offset = np.uint64(j * size + k * change.dtype.itemsize)
                lanes.update(space, address + offset, silent, change.dtype, part)

    return Semantics(run, reads={"b": dtype}, lanes=True)


def elements(value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """The elements of a packed value, starting with the lowest bits."""
    value = np.asarray(value)
    if value.dtype.itemsize == dtype.itemsize:
        return (value.view(dtype)[()],)
    parts = np.ascontiguousarray(value).reshape(-1, 1).view(dtype)
    return tuple(parts[:, k] if value.ndim else parts[0, k] for k in range(parts.shape[1]))


def packed(parts: tuple[Any, ...], dtype: np.dtype[Any]) -> Any:
    """Packs elements into one value: the inverse of `elements`."""
    if len(parts) == 1:
        return parts[0]
    return np.ascontiguousarray(np.stack([np.atleast_1d(p) for p in parts], 1)).view(dtype).reshape(-1)


# -- caches: no visible effect


def prefetch(op: Operation) -> Semantics:
    """Prefetches a cache line (ISA 9.7.10.14), without a visible effect."""
    return Semantics(lambda *_: None)


prefetchu = prefetch


def applypriority(op: Operation) -> Semantics:
    """Changes the eviction priority of a cache line (ISA 9.7.10.15), without a visible effect."""
    if op.has(".async"):
        raise Unsupported("asynchronous changes of eviction priorities are not executed")
    return Semantics(lambda *_: None)


def discard(op: Operation) -> Semantics:
    """Discards lines without writing them back (ISA 9.7.10.16): their contents are undefined until written again."""
    space = op.space("a")

    def run(lanes: Any, a: Any, *_: Any) -> None:
        address = np.asarray(a, np.uint64)
        for at in range(0, 128, 8):
            lanes.store(space, address + np.uint64(at), np.uint64(0xCBCBCBCBCBCBCBCB))

    return Semantics(run, lanes=True)


def createpolicy(op: Operation) -> Semantics:
    """Creates a cache policy, an opaque value (ISA 9.7.10.17)."""
    return Semantics(lambda *_: np.uint64(0))


# -- addresses


def isspacep(op: Operation) -> Semantics:
    """Whether a generic address is in a state space (ISA 9.7.10.18). Kernel parameters are also in `.global`."""
    space = op.slot(".ss")
    window = np.uint64(windows.WINDOWS[space] >> windows.WINDOW_BITS)
    shift = np.uint64(windows.WINDOW_BITS)

    def run(lanes: Any, a: Any) -> Any:
        found = np.asarray(a, np.uint64) >> shift
        if space == ".global":
            return (found == 0) | (found == windows.PARAM >> windows.WINDOW_BITS)
        inside = found == window
        if space in (".shared", ".shared::cta") and lanes.memory.cluster > 1:
            inside = inside & (windows.cluster_rank(a) == lanes.cta % lanes.memory.cluster)
        return inside

    return Semantics(run, reads={"a": _U64}, lanes=True)


def cvta(op: Operation) -> Semantics:
    """Converts between addresses in a state space and generic addresses (ISA 9.7.10.19)."""
    window = windows.WINDOWS[op.slot(".ss")]
    if not window:
        return Semantics(lambda a: a)
    if op.type == ".u32":
        raise Unsupported("generic addresses have 64 bits")
    base = np.uint64(window)
    if op.has(".to"):
        return Semantics(lambda a: a - base)
    return Semantics(lambda a: a + base)


def mapa(op: Operation) -> Semantics:
    """The corresponding address in another CTA of the cluster (ISA 9.7.10.22)."""
    dtype = op.dtype("d")
    return Semantics(lambda a, b: windows.cluster_address(a, b).astype(dtype), reads={"b": np.dtype(np.uint32)})


def getctarank(op: Operation) -> Semantics:
    """The CTA rank in a shared memory address (ISA 9.7.10.23)."""
    return Semantics(lambda a: windows.cluster_rank(a).astype(np.uint32))


# -- bytes

_MODES = {
    ".f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    ".b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    ".rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    ".ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    ".ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    ".rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
"""For each mode and the two lowest bits of the selector: the source of each result byte, lowest first."""


def prmt(op: Operation) -> Semantics:
    """Selects four bytes from a pair of registers (ISA 9.7.10.7)."""
    mode = op.slot(".mode")
    control = np.array([sum(s << 4 * k for k, s in enumerate(row)) for row in _MODES[mode]], np.uint64) if mode else None
    word = np.dtype(np.uint32)

    def run(a: Any, b: Any, c: Any) -> Any:
        pair = np.asarray(a, np.uint64) | (np.asarray(b, np.uint64) << np.uint64(32))
        selectors = np.asarray(c, np.uint64) if control is None else control[np.asarray(c & 3, np.int64)]
        result: Any = np.uint64(0)
        for k in range(4):
            selector = (selectors >> np.uint64(4 * k)) & np.uint64(15)
            byte = (pair >> ((selector & np.uint64(7)) << np.uint64(3))) & np.uint64(255)
            sign = (selector >> np.uint64(3)) & (byte >> np.uint64(7))
            byte = np.where(selector & np.uint64(8), sign * np.uint64(255), byte)
            result = result | (byte << np.uint64(8 * k))
        return np.asarray(result).astype(np.uint32)[()]

    return Semantics(run, reads={"a": word, "b": word, "c": word}, writes={"d": word})
