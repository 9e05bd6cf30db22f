"""Operations on tensor maps (ISA 9.7.10.25, 9.7.14.16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.asynchronous.tensor_maps import LAYOUT, SIZE
from ptxkit.machine.operation import Operation, Semantics

_WORD = np.dtype(np.uint64)


def tensormap(op: Operation) -> Semantics:
    """Replaces a field of a tensor map, or copies one from shared to global memory."""
    return _copied(op) if op.has(".cp_fenceproxy") else _replaced(op)


def _replaced(op: Operation) -> Semantics:
    field = LAYOUT.fields[op.slot(".field")[1:]]  # type: ignore[index]
    dtype, offset = field[0], field[1]
    dtype = dtype.base
    offset += dtype.itemsize * int(op.constants.get("ord", 0))
    space = op.space("a") if op.slot(".ss") else ".generic"
    value = op.dtype("v")

    def run(lanes: Any, a: Any, *rest: Any) -> None:
        # the whole tensor map is checked, but only the field is stored
        lanes.memory.locate(lanes, space, a, SIZE, "update", 64)
        lanes.store(space, np.asarray(a, np.uint64) + np.uint64(offset), np.asarray(rest[-1]).astype(dtype)[()])

    return Semantics(run, reads={"v": value}, lanes=True)


def _copied(op: Operation) -> Semantics:
    """All threads of a warp execute it with the same addresses; it is a single copy."""

    def run(lanes: Any, d: Any, s: Any, *_: Any) -> None:
        lanes.memory.locate(lanes, ".global", d, SIZE, "write", SIZE)
        lanes.memory.locate(lanes, ".shared", s, SIZE, "read", SIZE)
        for at in range(0, SIZE, _WORD.itemsize):
            word = lanes.load(".shared", np.asarray(s, np.uint64) + np.uint64(at), _WORD)
            lanes.store(".global", np.asarray(d, np.uint64) + np.uint64(at), word)

    return Semantics(run, lanes=True)
