"""Lanes do not know of each other: arrays, scalars, and both mixed give the same bits, of the size that the form asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from instructions import dtype_read, operations

from ptxkit.isa.forms import Form
from ptxkit.isa.table import all_forms
from ptxkit.machine.operation import Operation, Semantics, Unsupported
from ptxkit.machine.semantics import semantics_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

CHAPTERS = ("integer", "extended_precision", "logic", "comparison", "floating_point", "half_precision", "conversion", "video")
LANES = 17


def _random(generator: np.random.Generator, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return generator.random(LANES) < 0.5
    return generator.integers(0, 256, (LANES, dtype.itemsize), dtype=np.uint8).view(dtype)[:, 0].copy()


def _arguments(op: Operation, semantics: Semantics, generator: np.random.Generator) -> list[Any]:
    found: list[Any] = []
    for operand in op.reads:
        dtype = dtype_read(op, semantics, operand.name)
        if operand.name in op.constants:
            found.append(dtype.type(op.constants[operand.name]))
        elif operand.width:
            found.append(tuple(_random(generator, dtype) for _ in range(operand.width)))
        else:
            found.append(_random(generator, dtype))
    return [*found, _random(generator, np.dtype(bool))] if op.bound.carry in ("r", "rw") else found


def _first(x: Any) -> Any:
    return tuple(map(_first, x)) if isinstance(x, tuple) else x[0] if np.ndim(x) else x


def _several(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


@pytest.mark.parametrize("form", [f for f in all_forms() if f.file.removesuffix(".isa") in CHAPTERS], ids=lambda f: f"{f.file}:{f.line}")
def test_arrays_and_scalars(form: Form) -> None:
    generator = np.random.default_rng(form.line)
    found = operations(form)
    assert found
    for op in found[:: max(1, len(found) // 40)]:
        try:
            semantics = semantics_of(op)
        except Unsupported:
            continue
        arguments = _arguments(op, semantics, generator)
        whole = _several(semantics.run(*arguments))
        alone = _several(semantics.run(*_first(tuple(arguments))))
        mixed = _several(semantics.run(arguments[0], *_first(tuple(arguments[1:]))))
        sizes = [op.dtype(o.name).itemsize for o in op.writes] + [1] * (op.bound.carry in ("w", "rw"))
        assert [x.dtype.itemsize for x in whole] == sizes, op.bound.opcode
        for many, one, some in zip(whole, alone, mixed, strict=True):
            assert isinstance(one, np.generic), op.bound.opcode
            assert np.shape(many) in ((LANES,), ())
            assert _first(many).tobytes() == one.tobytes() == _first(some).tobytes(), op.bound.opcode
