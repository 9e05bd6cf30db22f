"""Which instructions depend on synthesized contents."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.execution.dependence import dependent
from ptxkit.machine import Machine
from ptxkit.machine.code import Body

FUNCTIONS = """
.func (.param .b32 result) choose(.param .align 8 .b8 pair[8])
{
.reg .b32 %a, %b, %c; .reg .pred %p;
ld.param.u32 %a, [pair];
ld.param.u32 %b, [pair+4];
setp.lt.u32 %p, %a, 9;
@%p bra OUT;
OUT:
st.param.u32 [result], %b;
ret;
}
.func (.reg .b32 %out) same(.reg .b32 %in)
{
mov.b32 %out, %in;
ret;
}
.func (.reg .b32 %out) half(.reg .b32 %in)
{
shr.b32 %out, %in, 1;
ret;
}
.global .u64 table[2] = { same, half };
"""
START = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; mov.u32 %r2, %tid.x; mov.u32 %r3, s;"
PAIR = """{{
.param .align 8 .b8 pair[8]; .param .b32 result;
st.param.u32 [pair], {0};
st.param.u32 [pair+4], {1};
call (result), choose, (pair);
ld.param.u32 %r4, [result];
}}
"""
BY_POINTER = "mul.wide.u32 %rd2, {0}, 8; mov.u64 %rd3, table; add.u64 %rd3, %rd3, %rd2; ld.global.u64 %rd4, [%rd3];"
STORE = "and.b32 %r5, %r4, 60; add.u32 %r5, %r3, %r5; st.shared.u32 [%r5], %r2;"


def lines(body: str) -> list[str]:
    """The instructions that depend on what the kernel loads from `p`."""
    text = (
        f"{HEAD}{FUNCTIONS}.visible .entry k(.param .u64 p)\n{{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .shared .b32 s[64];\n"
        f"prototype: .callprototype (.reg .b32 _) _ (.reg .b32 _);\n{START}\n{body}\n{STORE}\nret;\n}}\n"
    )
    machine = Machine("sm_90")
    code = machine.load(ptxkit.parse(text))
    machine.launch(code, "k", np.arange(64, dtype=np.uint32), grid=1, block=32)
    program = code.program("k", False, False)
    loads = {id(one): one for one in program.entry.sites if one.instruction.text.strip().startswith("ld.global.u32")}
    return [one.instruction.text.strip() for one in dependent(program, loads)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (PAIR.format("%r1", "%r2"), ["@%p bra OUT;"]),
        (PAIR.format("%r2", "%r1"), ["st.shared.u32 [%r5], %r2;"]),
        (PAIR.format("%r2", "%r2"), []),
        ("call (%r4), same, (%r1);", ["st.shared.u32 [%r5], %r2;"]),
        ("call (%r6), same, (%r1); call (%r4), half, (%r2);", []),
    ],
    ids=["a member of a structure", "the other member", "none", "a register", "another function"],
)
def test_values_are_followed_from_arguments_to_parameters_and_back_from_results(body: str, found: list[str]) -> None:
    assert lines(body) == found


def test_all_calls_of_a_function_are_taken_together() -> None:
    assert lines("call (%r6), same, (%r1); call (%r4), same, (%r2);") == ["st.shared.u32 [%r5], %r2;"]


def test_an_indirect_call_may_enter_any_function_that_takes_as_much() -> None:
    call = "mov.u32 %r6, 0;" + BY_POINTER.format("%r6") + "call (%r4), %rd4, ({0}), prototype;"

    assert lines(call.format("%r1")) == ["st.shared.u32 [%r5], %r2;"]
    assert lines(call.format("%r2")) == []


def test_a_function_that_contents_select() -> None:
    select = BY_POINTER.format("%r6") + "call (%r4), %rd4, (%r2), prototype;"

    assert lines("and.b32 %r6, %r1, 1;" + select) == [
        "ld.global.u64 %rd4, [%rd3];",
        "call (%r4), %rd4, (%r2), prototype;",
        "st.shared.u32 [%r5], %r2;",
    ]


def test_which_lane_a_shuffle_reads_and_not_what() -> None:
    from_lane = "shfl.sync.idx.b32 %r6, %r2, %r1, 31, -1; mov.u32 %r4, %r2;"
    value = "shfl.sync.idx.b32 %r6, %r1, 0, 31, -1; mov.u32 %r4, %r2;"

    assert lines(from_lane) == ["shfl.sync.idx.b32 %r6, %r2, %r1, 31, -1;"]
    assert lines(value) == []


def test_facts_of_executed_code_go_with_it() -> None:
    gc.collect()
    before = sum([type(one) is Body for one in gc.get_objects()])
    assert lines(PAIR.format("%r1", "%r2"))
    gc.collect()

    assert sum([type(one) is Body for one in gc.get_objects()]) == before
