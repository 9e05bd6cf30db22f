"""Atomic operations on memory (ISA 9.7.14.5, 9.7.14.6, 9.7.14.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.memory.combining import combining
from ptxkit.machine.operation import Operation, Semantics
from ptxkit.machine.semantics.data_movement import elements as _elements
from ptxkit.machine.semantics.data_movement import packed as _packed
from ptxkit.machine.types import dtype_of

_OPS = (".add", ".min", ".max", ".inc", ".dec", ".and", ".or", ".xor", ".exch", ".cas")


def atom(op: Operation) -> Semantics:
    """Combines a value with the contents of memory, and returns the old contents (ISA 9.7.14.5)."""
    return _atomic(op, True)


def red(op: Operation) -> Semantics:
    """Combines a value with the contents of memory (ISA 9.7.14.6). `red.async` is asynchronous (ISA 9.7.14.7)."""
    if op.has(".async"):
        from ptxkit.machine.asynchronous.stores import reduce_asynchronously

        return reduce_asynchronously(op)
    return _atomic(op, False)


def _atomic(op: Operation, wanted: bool) -> Semantics:
    name = next(o for o in _OPS if op.has(o))
    space, type = op.space("a"), op.type
    change, register = combining(name, type, op.has(".noftz")), dtype_of(type)
    update = change.update if wanted else change.update.silent()
    step = change.dtype.itemsize
    simple = step == register.itemsize and not op.slot(".vec")
    reads = {"b": register} if op.operand("c") is None else {"b": register, "c": register}
    # An atomic on a vector or a packed value is one for each element (ISA 9.7.14.5): they are updated one after another.

    def one(lanes: Any, a: Any, b: Any, *more: Any) -> Any:
        operands = (b, *more[:1]) if name == ".cas" else (b,)
        operands = tuple(np.asarray(o).view(change.dtype)[()] for o in operands) if change.dtype != register else operands
        return lanes.update(space, a, update, change.dtype, *operands)

    def several(lanes: Any, a: Any, b: Any, *_: Any) -> Any:
        address, olds = np.asarray(a, np.uint64)[()], []
        values = b if isinstance(b, tuple) else (b,)
        for j, value in enumerate(values):
            found = []
            for k, part in enumerate(_elements(value, change.dtype)):
                where = address + np.uint64(j * register.itemsize + k * step)
                found.append(lanes.update(space, where, update, change.dtype, part))
            if wanted:
                olds.append(_packed(tuple(found), register))
        if not wanted:
            return None
        return tuple(olds) if isinstance(b, tuple) else olds[0]

    run = one if simple else several
    writes = {"d": register} if wanted else {}
    return Semantics(run, reads=reads, writes=writes, lanes=True)
