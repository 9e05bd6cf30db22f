"""What a kernel may be launched with."""

from __future__ import annotations

import pytest
from sample import HEAD, REGISTERS

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.numbers.known_bits import between, bits
from ptxkit.analyses.symbolic.terms import Terms
from ptxkit.analyses.threads.inputs import SIZES, argument, block_sizes, likely_thread_block, special
from ptxkit.analyses.threads.lanes import Thread


def kernel(directives: str, body: str = "") -> Routine:
    return routines(ptxkit.parse(f"{HEAD}.entry k() {directives} {{ {REGISTERS} {body} ret; }}"))[0]


def test_arguments_fit_what_is_known_of_them() -> None:
    terms = Terms()

    assert argument(terms.leaf("parameter", 32, ("n",)), 17) == 17
    assert argument(terms.leaf("parameter", 8, ("byte",)), 1000) == 1000 % 256
    # a multiple of 16
    assert argument(terms.leaf("parameter", 64, ("p",), bits(15, 0, 64)), 17) == 17 * 16
    assert argument(terms.leaf("parameter", 32, ("few",), between(0, 9, 32)), 17) == 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("%ntid.x", 16),
        ("%ntid.y", 4),
        ("%ctaid.x", 0),
        ("%nctaid.x", 2),
        ("%nctaid.y", 1),
        ("%cluster_nctarank", 2),
        ("%cluster_ctarank", 0),
        # not the same for all threads, or of no launch
        ("%tid.x", None),
        ("%clock", None),
    ],
)
def test_special_registers(name: str, expected: int | None) -> None:
    assert special(name, Thread(15, 3, 0, 63)) == expected


def test_a_grid_of_one_block() -> None:
    assert special("%nctaid.x", Thread(31, 0, 0, 31), ctas=1) == 1


@pytest.mark.parametrize(
    ("directives", "body", "expected"),
    [
        ("", "mov.u32 %r1, %tid.x;", list(SIZES)),
        # as many as it says, then what is smaller
        (".maxntid 192", "", [192, 128, 64, 32, 160]),
        (".maxntid 64", "", [64, 32]),
        ("", "mov.u32 %r1, %tid.y;", []),
    ],
)
def test_sizes(directives: str, body: str, expected: list[int]) -> None:
    assert block_sizes(kernel(directives, body)) == expected


def test_the_likely_block() -> None:
    found = [likely_thread_block(kernel(*of)) for of in ((".reqntid 8, 4",), ("",), (".maxntid 96",), ("", "mov.u32 %r1, %tid.z;"))]

    assert [block.shape if block is not None else None for block in found] == [(8, 4, 1), (SIZES[0], 1, 1), (96, 1, 1), None]
