"""The threads of a CTA, as known or assumed."""

from __future__ import annotations

import pytest
from sample import HEAD, REGISTERS

import ptxkit
from ptxkit.analyses import routines
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, thread_block_of
from ptxkit.analyses.symbolic.values import values


def of(directives: str, body: str = "") -> ThreadBlock:
    return thread_block_of(routines(ptxkit.parse(f"{HEAD}.entry k() {directives} {{ {REGISTERS} {body} ret; }}"))[0])


@pytest.mark.parametrize(
    ("directives", "body", "shape", "is_assumed"),
    [
        (".reqntid 8, 4", "", (8, 4, 1), False),
        ("", "mov.u32 %r1, %tid.x;", (32, 1, 1), True),
        (".maxntid 128", "", (128, 1, 1), True),
        # one thread has the same index in any layout
        (".maxntid 128", "mov.u32 %r1, %tid.y;", (1, 1, 1), True),
        (".reqntid 8, 4", "mov.u32 %r1, %tid.y;", (8, 4, 1), False),
        # no device has it
        (".maxntid 2048", "", (32, 1, 1), True),
    ],
)
def test_shapes(directives: str, body: str, shape: tuple[int, int, int], is_assumed: bool) -> None:
    found = of(directives, body)

    assert (found.shape, found.is_assumed) == (shape, is_assumed)


def test_terms_by_thread() -> None:
    body = "mov.u32 %r1, %tid.y; mad.lo.u32 %r2, %r1, 10, 3; ld.param.u32 %r3, [n]; ret;"
    (routine,) = routines(ptxkit.parse(f"{HEAD}.entry k(.param .u32 n) .reqntid 2, 2 {{ {REGISTERS} {body} }}"))
    block, known = thread_block_of(routine), values(routine)
    (number,), (unknown,) = known.written(1), known.written(2)

    assert block.vector(number) == (3, 3, 13, 13)
    assert block.vector(unknown) is None
    assert block.where(known.terms.apply("eq", 1, (number, known.terms.constant(13, 32)))) == 0b1100
    assert [block.name(thread) for thread in (1, 2)] == ["thread (1, 0, 0)", "thread (0, 1, 0)"]
