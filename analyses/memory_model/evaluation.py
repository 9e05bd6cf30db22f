"""Evaluates non-memory instructions: a single instruction, executed by the machine for one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptxkit.isa.binding import Bound

Bits = int | tuple[int, ...]
"""A value as unsigned bits; a vector as a tuple."""


class CannotEvaluate(Exception):
    """An instruction that cannot be executed in isolation, with the reason."""


def evaluator(bound: Bound, target: str, constants: Mapping[str, Any]) -> Callable[..., tuple[Bits, ...]]:
    """A function that executes an instruction: from the operands it reads to those it writes, in table order.

    Raises CannotEvaluate if the machine does not support it, or if it needs other threads or memory.
    """
    import numpy as np

    from ptxkit.machine.operation import Operation, Unsupported
    from ptxkit.machine.semantics import semantics_of

    operation = Operation(bound, target, dict(constants))
    try:
        semantics = semantics_of(operation)
    except Unsupported as error:
        raise CannotEvaluate(str(error)) from None
    if semantics.lanes or semantics.enter is not None:
        raise CannotEvaluate(f"`{bound.opcode}` concerns other threads, or memory")
    kinds = [np.dtype(semantics.reads.get(one.name, operation.dtype(one.name))) for one in operation.reads]

    if any(kind.itemsize > 8 for kind in kinds) or any(operation.dtype(one.name).itemsize > 8 for one in operation.writes):
        raise CannotEvaluate("its values have more than 64 bits")

    def given(bits: Bits | None, kind: Any) -> Any:
        if isinstance(bits, tuple):
            return tuple(given(one, kind) for one in bits)
        if bits is None:
            return None
        if kind == np.bool_:
            return np.bool_(bits & 1)
        mask = (1 << 8 * kind.itemsize) - 1
        return np.array(bits & mask, dtype=f"uint{8 * kind.itemsize}").view(kind)[()]

    def taken(value: Any) -> Bits:
        if isinstance(value, tuple):
            return tuple(int(taken(one)) for one in value)  # type: ignore[arg-type]
        array = np.asarray(value)
        if array.dtype == np.bool_:
            return int(array.reshape(-1)[0])
        return int(np.ascontiguousarray(array).reshape(-1)[:1].view(f"uint{8 * array.dtype.itemsize}")[0])

    def run(*operands: Bits | None) -> tuple[Bits, ...]:
        with np.errstate(all="ignore"):
            result = semantics.run(*[given(bits, kind) for bits, kind in zip(operands, kinds, strict=True)])
        written = operation.writes
        if len(written) == 1:
            return (taken(result),)
        return tuple(taken(one) for one in result)

    return run
