"""Accesses that lie where nothing is: a textbook case for each kind, with the twin that is right."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Fault, Machine  # noqa: E402
from tests.machine.monitors.watching import rules, watched  # noqa: E402

TWO = ".shared .align 16 .b8 a[256]; .shared .align 16 .b8 b[256]; .local .align 4 .b8 l[16]; .local .align 4 .b8 m[16];"
CONST = ".const .align 4 .b32 c[4] = {1, 2, 3, 4};"
INDEX = "shl.b32 %r3, %r1, 2; mov.u32 %r4, {name}; add.s32 %r4, %r4, %r3;"

BAD = {
    "past the end of shared memory": (
        INDEX.format(name="b") + "st.shared.u32 [%r4+4], %r1;", "S002", "address",
        "thread (63,0,0) of CTA (0,0,0) writes 4 bytes at b[256..259], just past its end: it has only 256 bytes",
    ),
    "from one variable into the next": (
        INDEX.format(name="a") + "st.shared.u32 [%r4+4], %r1;", "S002", "ended",
        "thread (63,0,0) of CTA (0,0,0) writes a[256..259], just past its end: it has only 256 bytes",
    ),
    "by its name": ("ld.shared.u32 %r5, [a+256];", "S002", "ended", "reads a[256..259], just past its end"),
    "before its start": (
        INDEX.format(name="b") + "ld.shared.u32 %r5, [%r4+-4];", "S002", "ended", "reads b[-4..-1], 4 bytes before its start",
    ),
    "from one local variable into the next": ("st.local.u32 [l+16], %r1;", "S002", "ended", "writes l[16..19], just past its end"),
    "past the end of a buffer": (
        "st.global.u32 [%rd2+1020], %r1;", "S002", "address",
        "thread (1,0,0) of CTA (0,0,0) writes 4 bytes at out[1024..1027], just past its end: it has only 1024 bytes",
    ),
    "across its end": ("st.global.u64 [%rd1+1020], %rd1;", "S001", "address", "the address must be a multiple of 8"),
    "the destination of a copy": (
        "mov.u32 %r4, a; cp.async.ca.shared.global [%r4+4], [%rd1], 8;", "A007", "address", "the address must be a multiple of 8",
    ),
    "a null pointer": (
        "mov.u64 %rd3, 0; ld.global.u32 %r5, [%rd3+8];", "S002", "address", "at 0x8 of global memory: a null pointer and 8 bytes",
    ),
    "misaligned in one lane": (
        "setp.eq.u32 %p1, %r1, 5; selp.u64 %rd3, 2, 0, %p1; add.s64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r1;", "S001", "address",
        "thread (5,0,0) of CTA (0,0,0) writes 4 bytes at out[22..25]: the address must be a multiple of 4",
    ),
    "a vector at half its alignment": ("ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [a+8];", "S001", "address", "reads 16 bytes at a[8..23]"),
    "an mbarrier at half its alignment": ("mbarrier.init.shared.b64 [a+4], 1;", "M012", "address", "multiple of 8"),
    "a generic address as one of shared memory": (
        "mov.u64 %rd3, a; cvta.shared.u64 %rd3, %rd3; ld.shared.u32 %r5, [%rd3];", "S005", "address", "which is a generic address",
    ),
    "an address of shared memory as a generic one": (
        "mov.u64 %rd3, b; ld.u32 %r5, [%rd3+8];", "S005", "address",
        "reads 4 bytes at b[8..11]: this is its address within .shared, and a generic one is needed",
    ),
    "writing to .const": (
        "mov.u64 %rd3, c; cvta.const.u64 %rd3, %rd3; st.u32 [%rd3], %r1;", "S005", "address", "which a kernel can only read",
    ),
    "an atomic in local memory": (
        "mov.u64 %rd3, l; cvta.local.u64 %rd3, %rd3; atom.add.u32 %r5, [%rd3+4], 1;",
        "S005", "address", "updates 4 bytes at local memory[4..7]: an atomic needs a location in .global or .shared",
    ),
    "more of a parameter than there is": ("ld.param.u32 %r5, [n+-8];", "R006", "ended", "reads n[-8..-5], 8 bytes before its start"),
    "beyond a list of targets": (
        "mov.u32 %r3, 2; T: .branchtargets A, B; brx.idx %r3, T; A: B:",
        "R007", "branch", "branches by an index beyond the list of targets",
    ),
    "a copy into the next variable": (
        "mov.u32 %r4, a; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5; cp.async.ca.shared.global [%r4+4], [%rd1], 4; cp.async.wait_all;",
        "S002", "ended", "thread (63,0,0) of CTA (0,0,0) writes a[256..259], just past its end: it has only 256 bytes",
    ),
    "a bulk copy of what follows a variable": (
        "setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, a; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 272;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "S002", "ended", "reads a[0..271], across its end",
    ),
    "in another CTA": (
        "mov.u32 %r3, a; xor.b32 %r5, %r2, 1; mapa.shared::cluster.u32 %r4, %r3, %r5; ld.shared::cta.u32 %r6, [%r4];", "S005", "address",
        "of another CTA through .shared::cta",
    ),
}  # fmt: skip

GOOD = {
    "to its end": INDEX.format(name="a") + "st.shared.u32 [%r4], %r1; st.shared.u32 [b+252], %r1; st.local.u32 [l+12], %r1;",
    "between two variables by a register that comes from both": (
        "setp.lt.u32 %p1, %r1, 32; mov.u32 %r4, a; mov.u32 %r5, b; selp.u32 %r4, %r4, %r5, %p1; st.shared.u32 [%r4+4], %r1;"
    ),
    "aligned": "ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [a+16];",
    "copies of a whole variable": (
        "setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, a; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 256;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; cp.async.ca.shared.global [a+252], [%rd1], 4; cp.async.wait_all;"
    ),
    "another CTA": "mov.u32 %r3, a; xor.b32 %r5, %r2, 1; mapa.shared::cluster.u32 %r4, %r3, %r5; ld.shared::cluster.u32 %r6, [%r4];",
    "parameters": "ld.param.u32 %r5, [n]; ld.param.v2.u32 {%r6, %r7}, [out];",
}


def found(body: str, cluster: bool) -> tuple[list[Any], str]:
    return watched(body, "addresses", TWO, CONST, grid=2 if cluster else 1, cluster=2 if cluster else None)


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name: str) -> None:
    body, rule, outcome, sentence = BAD[name]
    findings, ended = found(body, "mapa" in body)
    assert (rules(findings), ended) == ([rule], outcome)
    diagnostic = findings[0].diagnostic
    assert sentence in diagnostic.message
    assert len(diagnostic.message) <= 160
    witness = findings[0].witness
    assert witness["accesses"][0]["line"] == diagnostic.span.line > 0
    assert witness["launch"]["kernel"] == "k"


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_silent(name: str) -> None:
    assert found(GOOD[name], "mapa" in GOOD[name]) == ([], "ended")


def test_a_cause_is_reported_once_with_a_count() -> None:
    findings, _ = found("st.shared.u32 [a+256], %r1;", False)
    assert [finding.count for finding in findings] == [64]


HEAD = ".version 6.5\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 m, .param .u32 n)\n"


def test_a_parameter_that_is_read_with_another_width_is_no_question_of_alignment() -> None:
    code = Machine("sm_80").load(HEAD.format(target="sm_80") + "{ .reg .b64 %d; ld.param.u64 %d, [n]; ret; }")
    with pytest.raises(Fault) as fault:
        code.machine.launch(code, "k", np.zeros(1, np.uint32), 1, 2, grid=1, block=1, checks="addresses")
    (found,) = fault.value.findings
    assert (found.diagnostic.rule, "across its end: it has only 4 bytes" in found.diagnostic.message) == ("R006", True)


@pytest.mark.parametrize(("target", "lanes", "expected"), [("sm_75", 31, ["F008"]), ("sm_75", 7, []), ("sm_80", 31, [])])
def test_lanes_that_load_no_row_give_valid_addresses_up_to_sm_75(target: str, lanes: int, expected: list[str]) -> None:
    body = (
        "{ .shared .align 16 .b8 s[128]; .reg .b32 %r<6>; mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3;"
        f" st.shared.u32 [%r3], %r1; bar.sync 0; and.b32 %r4, %r1, {lanes}; shl.b32 %r4, %r4, 4; add.u32 %r4, %r2, %r4;"
        " ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4]; ret; }"
    )
    code = Machine(target).load(HEAD.format(target=target) + body)
    findings = code.machine.launch(code, "k", np.zeros(1, np.uint32), 1, 2, grid=1, block=32, checks="addresses").findings
    assert rules(list(findings)) == expected


FUNCTIONS = """
.func put(.param .align 8 .b8 place[16], .reg .b32 %in)
{
.reg .b32 %a, %i, %s;
ld.param.u32 %a, [place];
ld.param.u32 %i, [place+8];
shl.b32 %s, %i, 2;
add.u32 %s, %a, %s;
st.shared.u32 [%s], %in;
ret;
}
.func outer(.reg .b32 %at, .reg .b32 %i)
{
.param .align 8 .b8 place[16];
st.param.u32 [place], %at;
st.param.u32 [place+8], %i;
call put, (place, %i);
ret;
}
"""
PUT = "mov.u32 %r3, {0}; {{ .param .align 8 .b8 p[16]; st.param.u32 [p], %r3; st.param.u32 [p+8], {1}; call put, (p, %r1); }}"


def called(body: str) -> list[str]:
    findings, _ = watched(body, "addresses", TWO, FUNCTIONS)
    return [one.diagnostic.message.partition("writes ")[2].partition(",")[0] for one in findings]


def test_a_function_is_given_the_address_of_a_variable() -> None:
    assert called("add.u32 %r4, %r1, 1;" + PUT.format("a", "%r4")) == ["a[256..259]"]
    assert called(PUT.format("a", "%r1")) == []


def test_a_function_hands_the_address_on() -> None:
    assert called("add.u32 %r4, %r1, 1; mov.u32 %r3, a; call outer, (%r3, %r4);") == ["a[256..259]"]
    assert called("mov.u32 %r3, a; call outer, (%r3, %r1);") == []


def test_calls_that_pass_several_variables_are_not_told_apart() -> None:
    assert called("add.u32 %r4, %r1, 1;" + PUT.format("a", "%r4") + PUT.format("b", "%r1")) == []


def test_other_variables_may_come_by_an_indirect_call() -> None:
    other = "mov.u64 %rd3, outer; P: .callprototype _ (.reg .b32 _, .reg .b32 _); mov.u32 %r3, a; call %rd3, (%r3, %r4), P;"

    assert called("add.u32 %r4, %r1, 1;" + other) == []
