"""The manual's bounds for approximate instructions (9.7.3, 9.7.4): whether a result is as near to the exact one as they say.

A bound over one interval, as "2^-23 over 1.0 to 2.0", is taken as the relative error that it is at the interval's lower end. Where the
exact result is infinite, no number, or too large, what the GPU has is expected; everywhere else a result may differ from the exact one by
the bound and the smallest normal number, or be what the GPU has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import operands

ABSOLUTE, RELATIVE = "absolute", "relative"
BOUNDS: dict[str, tuple[str, float]] = {
    "div.approx.f32": (RELATIVE, 2 * 2.0**-23),
    "div.full.f32": (RELATIVE, 2 * 2.0**-23),
    "rcp.approx.f32": (RELATIVE, 2.0**-23.0),
    "sqrt.approx.f32": (RELATIVE, 2.0**-22.0),
    "rsqrt.approx.f32": (RELATIVE, 2.0**-22.4),
    "sin.approx.f32": (ABSOLUTE, 2.0**-20.9),
    "cos.approx.f32": (ABSOLUTE, 2.0**-20.9),
    "lg2.approx.f32": (ABSOLUTE, 2.0**-22.6),
    "ex2.approx.f32": (RELATIVE, 2.0**-22.5),
    "tanh.approx.f32": (RELATIVE, 2.0**-11),
    "tanh.approx.f16": (ABSOLUTE, 2.0**-10.987),
    "tanh.approx.bf16": (ABSOLUTE, 2.0**-8),
    "ex2.approx.f16": (RELATIVE, 2.0**-9.9),
    "ex2.approx.bf16": (RELATIVE, 2.0**-7),
    # coarse: the upper half of the mantissa
    "rcp.approx.f64": (RELATIVE, 2.0**-19),
    "rsqrt.approx.f64": (RELATIVE, 2.0**-19),
}
EXACT: dict[str, Callable[..., Any]] = {
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
SMALLEST = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14, "f64": 2.0**-1022}


def decoded(bits: Any, kind: str) -> Any:
    """The numbers that stand for these bits, as long doubles; of a packed type two columns."""
    scalar, _, lanes = kind.partition("x")
    if lanes:
        half = bits.astype(np.uint64)
        return np.stack(
            [decoded(((half >> np.uint64(16 * lane)) & np.uint64(0xFFFF)).astype(np.uint16), scalar) for lane in range(int(lanes))], -1
        )
    if scalar == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.longdouble)
    return np.ascontiguousarray(bits).view({"f16": np.float16, "f32": np.float32, "f64": np.float64}[scalar]).astype(np.longdouble)


def share(test: Any, number: int, new: Any, old: Any, wrong: Any) -> float:
    """The largest error of the results `new` at `wrong`, over the bound: 1 at most if all are within; the GPU has `old`."""
    registers = test.registers
    source = test.arguments[0]
    if registers is None:
        return np.inf
    kind = source.kinds[0]
    mnemonic = registers.opcode.partition(".")[0]
    mode = "full" if ".full" in registers.opcode else "approx"
    found = BOUNDS.get(f"{mnemonic}.{mode}.{kind.partition('x')[0]}")
    if found is None:
        return np.inf
    manner, bound = found
    inputs = [decoded(value[wrong], kind) for value in operands.sets(source.kinds, source.count, source.salt)]
    smallest = SMALLEST[kind.partition("x")[0]]
    with np.errstate(all="ignore"):
        got, there = decoded(new[wrong], kind), decoded(old[wrong], kind)
        exact = EXACT[mnemonic](*inputs)
        # of a logarithm the bound is that of the mantissa's; adding the exponent rounds once more
        scale = np.abs(exact) if manner == RELATIVE else 1
        allowed = bound * scale + smallest + (np.abs(exact) * 2.0**-24 if mnemonic == "lg2" else 0)
        error = np.abs(got - exact) / allowed
        open_ = ~np.isfinite(exact) | (np.abs(exact) >= 2.0**127 if kind == "f32" else False)
        same = (got == there) | (np.isnan(got) & np.isnan(there))
    return float(np.max(np.where(same, 0, np.where(open_ | np.isnan(error), np.inf, error)), initial=0))
