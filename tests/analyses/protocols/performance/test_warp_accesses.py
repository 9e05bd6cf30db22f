"""What the lanes of a warp address together, and the rules that go by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import ptxkit
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.framework.rule import select
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.protocols.performance.warp_accesses import WarpAccess, warp_accesses

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 p, .param .u32 n)
{directives}
{{
	.shared .align 16 .b8 tile[65536];
	.reg .pred %p<4>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<8>;
	mov.u32 %r0, %tid.x;
	mov.u32 %r9, tile;
	ld.param.u32 %r10, [n];
	ld.param.u64 %rd1, [p];
	cvta.to.global.u64 %rd1, %rd1;
	{body}
	ret;
}}
"""


def module(body: str, directives: str = ".reqntid 128") -> ptxkit.Module:
    return ptxkit.parse(KERNEL.format(body=body, directives=directives))


def last(body: str, directives: str = ".reqntid 128") -> WarpAccess | None:
    routine = routines(module(body, directives))[0]
    return warp_accesses(routine).of(accesses(routine)[-1])


def messages(rule: str, body: str, directives: str = ".reqntid 128") -> list[str]:
    return [found.message for found in lint(module(body, directives), select([rule]))]


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "mul.lo.u32": lambda a, b: a * b,
    "add.u32": lambda a, b: a + b,
    "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b,
    "shr.u32": lambda a, b: a >> (b % 8),
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 255)), max_size=4),
    st.sampled_from([("u8", 1), ("u32", 4), ("u64", 8), ("v4.u32", 16)]),
)
@example([("add.u32", 1), ("mul.lo.u32", 31)], ("u8", 1))
@settings(max_examples=60, deadline=None)
def test_conflicts_are_those_that_a_simulation_has(steps: list[tuple[str, int]], kind: tuple[str, int]) -> None:
    suffix, size = kind
    offsets = list(range(32))
    body = "mov.u32 %r1, %r0;\n"
    for operation, number in steps:
        number = number % 8 if operation.startswith("shr") else number
        body += f"{operation} %r1, %r1, {number};\n"
        offsets = [OPERATIONS[operation](offset, number) for offset in offsets]
    offsets = [(offset % 1024) * size for offset in offsets]
    body += f"and.b32 %r1, %r1, 1023;\nmul.lo.u32 %r1, %r1, {size};\nadd.u32 %r1, %r1, %r9;\n"
    body += {"v4.u32": "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r1];", "u64": "ld.shared.u64 %rd2, [%r1];"}.get(
        suffix, f"ld.shared.{suffix} %r4, [%r1];"
    )
    worst = 1
    lanes = 32 if size <= 4 else 128 // size
    for first in range(0, 32, lanes):
        words = {word for offset in offsets[first : first + lanes] for word in range(offset // 4, (offset + size - 1) // 4 + 1)}
        worst = max([worst, *[sum(word % 32 == bank for word in words) for bank in range(32)]])

    expected = [f"{worst}-way bank conflict: the lanes are served in {worst} passes"] if worst > 1 else []
    assert messages("L001", body) == expected


@pytest.mark.parametrize(("align", "ways"), [(4, 2), (1, 1)])
def test_where_a_word_begins_may_not_be_known(align: int, ways: int) -> None:
    # bytes that are 130 apart lie in one bank if the first is in the first half of its word
    body = "mul.lo.u32 %r1, %r0, 130;\nadd.u32 %r1, %r1, %r9;\nsetp.lt.u32 %p1, %r0, 2;\n@%p1 ld.shared.u8 %r2, [%r1];"
    text = module(body).text.replace("align 16", f"align {align}")

    found = lint(ptxkit.parse(text), select(["L001"]))
    assert [one.message.split("-")[0] for one in found] == ([str(ways)] if ways > 1 else [])


def test_what_all_lanes_agree_on_does_not_matter() -> None:
    found = last("mul.wide.u32 %rd2, %r0, 12;\nadd.u64 %rd1, %rd1, %rd2;\nmul.wide.u32 %rd3, %r10, 4;\nadd.u64 %rd1, %rd1, %rd3;\n"
                 "ld.global.u32 %r1, [%rd1+8];")  # fmt: skip

    assert found is not None
    assert found.offsets == tuple(range(0, 384, 12))


@pytest.mark.parametrize(
    "body",
    [
        # by what was loaded, and by a product with a parameter
        "ld.global.u32 %r1, [%rd1];\nmul.lo.u32 %r1, %r1, %r0;\nadd.u32 %r1, %r1, %r9;\nld.shared.u32 %r2, [%r1];",
        "mul.lo.u32 %r1, %r10, %r0;\nadd.u32 %r1, %r1, %r9;\nld.shared.u32 %r2, [%r1];",
        # by one lane only
        "setp.eq.u32 %p1, %r0, 0;\n@%p1 ld.shared.u32 %r2, [%r9];",
    ],
)
def test_what_is_not_known(body: str) -> None:
    assert last(body) is None


def test_loops_are_looked_at_when_they_begin() -> None:
    found = last("mad.lo.u32 %r1, %r0, 64, %r9;\nagain:\nld.shared.u32 %r2, [%r1];\nadd.u32 %r1, %r1, %r10;\n"
                 "setp.lt.u32 %p1, %r1, %r10;\n@%p1 bra again;")  # fmt: skip

    assert found is not None
    assert found.offsets == tuple(range(0, 2048, 64))


def test_without_the_shape_of_a_block_it_is_taken_to_have_one_dimension() -> None:
    found = last("mad.lo.u32 %r1, %r0, 4, %r9;\nld.shared.u32 %r2, [%r1];", "")

    assert found is not None
    assert "one dimension" in found.assumption
    assert last("mov.u32 %r2, %tid.y;\nmad.lo.u32 %r1, %r0, 4, %r9;\nld.shared.u32 %r2, [%r1];", "") is None


def test_only_lanes_that_execute_it_count() -> None:
    found = last("setp.lt.u32 %p1, %r0, 8;\nmad.lo.u32 %r1, %r0, 4, %r9;\n@%p1 ld.shared.u32 %r2, [%r1];")

    assert found is not None
    assert found.offsets == tuple(range(0, 32, 4))


def test_sectors() -> None:
    stride = "mul.wide.u32 %rd2, %r0, {};\nadd.u64 %rd1, %rd1, %rd2;\nld.global.u32 %r1, [%rd1];"

    assert messages("L002", stride.format(4)) == []
    assert messages("L002", stride.format(0)) == []
    assert messages("L002", stride.format(8)) == ["a warp moves 8 sectors of 32 bytes to use 128 bytes, which 4 would hold"]
    assert messages("L002", stride.format(4096)) == ["a warp moves 32 sectors of 32 bytes to use 128 bytes, which 4 would hold"]
    # neighbours that start in the middle of a sector are no fault of the program
    assert messages("L002", stride.format(4).replace("%rd1]", "%rd1+4]")) == []


def test_what_is_alike_is_told_once() -> None:
    loads = "mul.wide.u32 %rd2, %r0, 64;\nadd.u64 %rd1, %rd1, %rd2;\nld.global.u32 %r1, [%rd1];\nld.global.u32 %r2, [%rd1+4];"
    (found,) = lint(module(loads), select(["L002"]))

    assert "1 more in this function does the same" in found.notes


def test_matrices_are_rows() -> None:
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4,%r5,%r6,%r7}}, [%r1];"
    rows = "mad.lo.u32 %r1, %r0, {}, %r9;\n" + load

    assert messages("L001", rows.format(16)) == []
    assert messages("L001", rows.format(128)) == ["8-way bank conflict: the lanes are served in 8 passes"]
    assert messages("L001", rows.format(144)) == []


def test_local_memory_by_variable() -> None:
    body = ".local .align 4 .b8 depot[64];\nand.b32 %r1, %r0, 15;\nmov.u32 %r2, depot;\nmad.lo.u32 %r2, %r1, 4, %r2;\n"
    body += "st.local.u32 [depot], %r0;\nld.local.u32 %r3, [%r2];"
    (found,) = lint(module(body), select(["L003"]))

    assert found.message == "`depot`, 64 bytes per thread, is in local memory: 1 loads, 1 stores"
    assert [related.message for related in found.related] == ["the index is only known at run time"]


@pytest.mark.parametrize(
    ("between", "is_redundant"),
    [
        ("", True),
        ("add.u32 %r1, %r0, 1;", True),
        ("st.shared.u32 [tile], %r0;", False),
        ("mov.u32 %r1, %clock;", False),
        ("bar.sync 1;", False),
        ("shfl.sync.idx.b32 %r1, %r0, 0, 31, -1;", False),
        ("label:\nadd.u32 %r1, %r0, 1;\nsetp.lt.u32 %p1, %r1, %r10;\n@%p1 bra label;", False),
    ],
)
def test_barriers_behind_barriers(between: str, is_redundant: bool) -> None:
    assert bool(messages("L004", f"bar.sync 0;\n{between}\nbar.sync 0;")) is is_redundant
