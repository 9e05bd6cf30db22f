"""Whatever is bound, binding answers: it raises nothing, and takes little work."""

from __future__ import annotations

import random

import pytest
from work import calls

from ptxkit.isa import shapes
from ptxkit.isa.binding import Bound, bind, check_constants
from ptxkit.isa.mismatch import Mismatch
from ptxkit.isa.shapes import OperandShape
from ptxkit.isa.table import forms, mnemonics
from ptxkit.isa.types import declarable

LEAVES = [
    *(shapes.register(t.name) for t in declarable()),
    shapes.register(".f32", 4),
    shapes.register(".pred", 1, True),
    shapes.register(""),
    shapes.register(".nosuchtype"),
    shapes.immediate("int"),
    shapes.immediate("f32"),
    shapes.immediate("f64"),
    shapes.symbol(".shared", ".b8"),
    shapes.symbol(".global", ".texref"),
    shapes.symbol(),
    shapes.special("%tid.x"),
    shapes.special("%nosuch"),
    shapes.SINK,
    shapes.LABEL,
    shapes.FUNCTION,
    shapes.KERNEL,
    shapes.UNKNOWN,
]


def operand(choose: random.Random, depth: int = 2) -> OperandShape:
    if depth == 0 or choose.random() < 0.6:
        return choose.choice(LEAVES)
    parts = [operand(choose, depth - 1) for _ in range(choose.randrange(0, 5))]
    if len(parts) == 2 and choose.random() < 0.3:
        return shapes.pair(*parts)
    return choose.choice((shapes.vector, shapes.address, shapes.operands))(*parts)


@pytest.mark.parametrize("seed", range(4))
def test_binding_always_answers(seed: int) -> None:
    choose = random.Random(seed)
    names = sorted(mnemonics())
    known = sorted({m for name in names for form in forms(name) for m in form.takes})
    for _ in range(3000):
        name = choose.choice(names)
        form = choose.choice(forms(name))
        words = [choose.choice(slot.choices).modifier for slot in form.slots if not slot.optional or choose.random() < 0.5]
        if choose.random() < 0.4:
            words.insert(choose.randrange(len(words) + 1), choose.choice(known))
        if words and choose.random() < 0.3:
            words.pop(choose.randrange(len(words)))
        operands = tuple(operand(choose) for _ in range(choose.randrange(0, 6)))
        found = bind(name + "".join(words), operands)
        assert isinstance(found, Bound | Mismatch)
        if isinstance(found, Mismatch):
            assert found.kind and found.message and not found.message.endswith(".")
        else:
            assert found.reads is not None and found.writes is not None and found.memory is not None
            check_constants(found, lambda path: 7)


@pytest.mark.parametrize(
    "opcode",
    [
        "",
        ".",
        "..",
        "ld..u32",
        "ld.",
        "add." + "f32." * 5000,
        "mma" + ".row" * 3000 + ".f16" * 3000,
        "cvt" + ".f32" * 12,
        "\0",
        "ld.\u00e9",
    ],
)
def test_strange_opcodes_take_little_work(opcode: str) -> None:
    bind("add.u32", ())  # what is read when the first opcode is bound is no part of it
    found: list[object] = []
    assert calls(lambda: found.append(bind(opcode, ()))) < 30_000 + 150 * len(opcode)
    assert isinstance(found[0], Mismatch)
