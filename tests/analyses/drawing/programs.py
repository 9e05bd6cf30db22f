"""PTX to draw: of any size, and as odd as it gets."""

from __future__ import annotations

import random

import pytest

from ptxkit.analyses.drawing import CannotDraw
from ptxkit.analyses.drawing.render import program
from ptxkit.syntax import Module, parse

HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n"


def structured(blocks: int, seed: int = 1, exits: bool = False, rows: int = 4) -> str:
    """A kernel of about this many blocks: nested loops and conditions, as compilers lay them out; with early exits if wanted."""
    draw = random.Random(seed)
    lines: list[str] = []
    made = 0

    def label() -> str:
        nonlocal made
        made += 1
        return f"$L_{made}"

    def work() -> None:
        for _ in range(draw.randint(1, rows)):
            lines.append(f"  add.s32 %r{draw.randrange(100)}, %r{draw.randrange(100)}, {draw.randrange(1000)};")

    def sequence(left: int, depth: int) -> None:
        while left > 0:
            size = min(left - 1, draw.randint(1, max(2, min(left // 2, 60))))
            kind = draw.random()
            work()
            if exits and kind < 0.3:
                lines.append(f"  @%p{draw.randrange(8)} bra $L_exit;")
                left -= 1
            elif kind < 0.5 and left > 3 and depth < 6:
                top = label()
                lines.append(f"{top}:")
                sequence(size, depth + 1)
                lines.append(f"  @%p1 bra {top};")
                left -= size + 1
            elif left > 3:
                end = label()
                lines.append(f"  @%p2 bra {end};")
                sequence(size, depth + 1)
                lines.append(f"{end}:")
                left -= size + 1
            else:
                lines.append(f"  @%p3 bra {(end := label())};")
                work()
                lines.append(f"{end}:")
                left -= 2

    sequence(blocks, 0)
    body = "\n".join(lines)
    return f"{HEAD}.entry big() {{\n.reg .b32 %r<100>;\n.reg .pred %p<8>;\n{body}\n$L_exit:\n  ret;\n}}\n"


def kernel(body: str, name: str = "k") -> Module:
    """A module with one kernel of these statements."""
    return parse(f"{HEAD}.entry {name}() {{\n.reg .b32 %r<9>;\n.reg .pred %p<9>;\n{body}\n}}\n")


HOSTILE = [
    "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiEEE" * 3,
    "$" + "x" * 10_000,
    "%" + "9" * 300,
    "_$_$_",
]
"""Names as compilers and adversaries make them."""

TEXTS = ["<b>&amp;\"'</TABLE>>", '\\N \\G \\"', "]]> ]", "ünïcödé 核 \U0001f600", "\x00\x01\x1b\x7f", "\udcff\ud800", "]", " "]
"""What may stand in comments, file names and broken statements."""


def has_program() -> bool:
    try:
        return bool(program())
    except CannotDraw:
        return False


needs_program = pytest.mark.skipif(not has_program(), reason="neither `dot` nor `graphviz-pure` is there")
