"""What compiled code calls: conversions of values, and the execution of an instruction for some lanes only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ptxkit.machine.groups import taken
from ptxkit.machine.memory.operands import SplitAddress
from ptxkit.machine.types import B128

Array = np.ndarray[Any, Any]
U64 = np.dtype(np.uint64)
BOOL = np.dtype(np.bool_)


def fit(x: Any, dtype: np.dtype[Any]) -> Any:
    """Reinterprets a value as a dtype of its size."""
    if not isinstance(x, np.ndarray | np.generic):
        x = np.asarray(x).astype(dtype)[()]
    if x.dtype == dtype:
        return x[()] if getattr(x, "ndim", 1) == 0 else x
    if x.dtype == BOOL or dtype == BOOL:
        return x.astype(dtype)
    if x.dtype.itemsize != dtype.itemsize:
        return x.astype(dtype)
    return view(x, dtype)


def view(x: Any, dtype: np.dtype[Any]) -> Any:
    """The same bits as another dtype of this size."""
    return np.ascontiguousarray(x).view(dtype).reshape(np.shape(x))[()] if x.dtype.kind == "V" or dtype.kind == "V" else x.view(dtype)


def wide(x: Any) -> Any:
    """Extends 64 bits to 128."""
    out = np.zeros(np.shape(x), B128)
    out["lo"] = x
    return out[()] if not np.ndim(x) else out


def land(x: Any, have: np.dtype[Any], want: np.dtype[Any]) -> Any:
    """Converts a result to the dtype of its register."""
    x = fit(x, have)
    if have == want:
        return x
    if have.itemsize == want.itemsize or BOOL in (have, want):
        return fit(x, want)
    if want.kind == "V":
        return wide(x.astype(U64))
    if have.kind not in "iu":
        x = x.view(np.dtype(f"u{have.itemsize}"))
    return x.astype(want)


def guarded(predicate: Any, lanes: Any, plan: Any, arguments: tuple[Any, ...], old: tuple[Any, ...]) -> tuple[Any, ...]:
    """Executes an instruction for the lanes whose predicate holds. Returns its results, with `old` for the other lanes."""
    run, with_lanes, shape, dtypes = plan
    positions = None
    if not predicate.ndim:
        if not predicate:
            return old
    else:
        count = np.count_nonzero(predicate)
        if count == 0:
            return old
        if count < len(predicate):
            positions = np.flatnonzero(predicate)
            arguments = tuple([taken(x, positions) for x in arguments])
            if with_lanes:
                lanes = lanes.at(positions)
    result = run(lanes, *arguments) if with_lanes else run(*arguments)
    if not dtypes:
        return ()
    results = result if len(shape) > 1 else (result,)
    flat: list[Any] = []
    for one, width in zip(results, shape, strict=True):
        if width:
            flat += one
        else:
            flat.append(one)
    out: list[Any] = []
    for x, before, pair in zip(flat, old, dtypes, strict=True):
        if pair is None:
            out.append(None)
            continue
        x = land(x, *pair)
        if positions is not None:
            whole = before.copy() if before.ndim else np.full(len(predicate), before)
            whole[positions] = x
            x = whole
        out.append(x)
    return tuple(out)


HELPERS = {"SplitAddress": SplitAddress, "fit": fit, "view": view, "wide": wide, "guarded": guarded, "__builtins__": {}}
