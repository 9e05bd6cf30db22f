"""Conversion between the registers of many warps and the fragments in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptxkit.machine.matrices.elements import packed, unpacked
from ptxkit.machine.matrices.layouts import Layout, to_fragments, to_matrix
from ptxkit.machine.operation import Operation

Array = np.ndarray[Any, Any]
Collect = Callable[[Any], Array]
"""Converts arrays over lanes to (warps, 32) or (warpgroups, 128), or back."""


def words(collect: Collect, registers: Any) -> Array:
    """Registers, one or a tuple, as unsigned words (groups, lanes, registers)."""
    stacked = np.stack([collect(r) for r in (registers if isinstance(registers, tuple) else (registers,))], axis=-1)
    return stacked.view(f"uint{stacked.dtype.itemsize * 8}")


def gathered(collect: Collect, registers: Any, bits: int, layout: Layout) -> Array:
    """The matrices (groups, rows, columns) whose fragments the lanes hold in `registers`, as unsigned integers."""
    return to_matrix(layout, unpacked(words(collect, registers), bits))


def scattered(spread: Collect, matrices: Array, layout: Layout, register: str) -> tuple[Array, ...]:
    """Registers of this dtype that hold the fragments of `matrices`, as a tuple of arrays over lanes."""
    return spread_words(spread, packed(to_fragments(layout, matrices), np.dtype(register)))


def spread_words(spread: Collect, registers: Array) -> tuple[Array, ...]:
    """Words (groups, lanes, registers) as a tuple of arrays over lanes."""
    return tuple(spread(np.ascontiguousarray(registers[:, :, r])) for r in range(registers.shape[2]))


def as_written(op: Operation, operand: str, values: Sequence[Array]) -> Any:
    """The values of an operand's registers; a tuple if it is written as a vector."""
    bound = op.operand(operand)
    return tuple(values) if bound is not None and bound.shape.kind == "vector" else values[0]
