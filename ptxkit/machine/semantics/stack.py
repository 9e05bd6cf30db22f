"""The stack (ISA 9.7.17): `alloca` allocates a thread's local memory beyond its frame.

The end of what is taken (`top`) is a register of its own: it arrives as the last argument and leaves as the last result.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.operation import Operation, Semantics

_U64 = np.uint64


def stacksave(op: Operation) -> Semantics:
    """Returns the stack pointer (ISA 9.7.17.1)."""
    return Semantics(lambda top: top.astype(op.dtype("d")))


def stackrestore(op: Operation) -> Semantics:
    """Restores a saved stack pointer (ISA 9.7.17.2)."""
    return Semantics(lambda a, top: (a.astype(_U64),))


def alloca(op: Operation) -> Semantics:
    """Allocates memory on the stack, and returns its address in `.local` (ISA 9.7.17.3)."""
    align = int(op.constants.get("align", 8))

    def run(size: Any, *rest: Any) -> Any:
        top = rest[-1]
        start = (top + _U64(align - 1)) & _U64((1 << 64) - align)
        return start.astype(op.dtype("ptr")), start + size.astype(_U64)

    return Semantics(run)
