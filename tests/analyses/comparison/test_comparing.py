"""What counts as a difference, and that it is shown where it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxkit
from ptxkit import files
from ptxkit.analyses.comparison import Comparison, compare
from ptxkit.rewriters import Refused, all_rewriters

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "kernels"

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.global .u32 counter;
.global .f32 table[4];
.visible .entry k(.param .u64 p, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    .shared .align 4 .b8 tile[128];
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.s32 %p1, %r2, %r1;
    @%p1 bra done;
    add.s32 %r3, %r2, 1;
    add.s32 %r4, %r3, 2;
    st.global.u32 [%rd1], %r4;
    bar.sync 0;
done:
    ret;
}
"""


def differences(before: str, after: str) -> Comparison:
    return compare(ptxkit.parse(before), ptxkit.parse(after))


def shown(before: str, after: str) -> list[tuple[str, str | None, str | None]]:
    found = differences(before, after)
    return [
        (change.kind, change.before and change.before.text, change.after and change.after.text)
        for change in (*found.module, *[change for function in found.functions for change in function.changes])
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%r3", "%other7"),
        ("done", "$L__1"),
        (".global .u32 counter;\n.global .f32 table[4];", ".global .f32 table[4];\n.global .u32 counter;"),
        (".reg .b32 %r<6>;\n    .reg .b64 %rd<3>;", ".reg .b64 %rd<3>; .reg .b32 %r<60>;"),
        ("    bar.sync 0;", "\n\n  /* all */ bar.sync  0 ; // come together"),
        (".target sm_80", ".target sm_80, debug"),
    ],
)
def test_what_is_no_difference(old: str, new: str) -> None:
    after = KERNEL.replace(old, new)
    if new == "%other7":
        after = after.replace("%rd<3>;", "%rd<3>; .reg .b32 %other7;")

    assert after != KERNEL
    assert differences(KERNEL, after).is_equal


@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("    bar.sync 0;\n", "", ("removed", "bar.sync 0;", None)),
        ("%r3, 2;", "%r3, 3;", ("changed", "add.s32 %r4, %r3, 2;", "add.s32 %r4, %r3, 3;")),
        ("%r3, 2;", "%r2, 2;", ("changed", "add.s32 %r4, %r3, 2;", "add.s32 %r4, %r2, 2;")),
        ("setp.ge.s32", "setp.ge.u32", ("changed", "setp.ge.s32 %p1, %r2, %r1;", "setp.ge.u32 %p1, %r2, %r1;")),
        ("@%p1 bra", "@!%p1 bra", ("changed", "@%p1 bra done;", "@!%p1 bra done;")),
        ("    ret;", "    trap;\n    ret;", ("added", None, "trap;")),
        ("tile[128]", "tile[256]", ("changed", ".shared .align 4 .b8 tile[128];", ".shared .align 4 .b8 tile[256];")),
        ("table[4];", "table[8];", ("changed", ".global .f32 table[4];", ".global .f32 table[8];")),
        (".target sm_80", ".target sm_90", ("changed", ".target sm_80", ".target sm_90")),
        (".reg .b32 %r<6>", ".reg .b32 %r<4>; .reg .f32 %r4", ("changed", ".reg .b32 %r4", ".reg .f32 %r4")),
    ],
)
def test_a_difference_is_shown_and_nothing_else(old: str, new: str, change: tuple[str, str | None, str | None]) -> None:
    assert shown(KERNEL, KERNEL.replace(old, new)) == [change]


def test_lines_are_those_of_each_file() -> None:
    (function,) = differences(KERNEL, "// one line more\n" + KERNEL.replace("%r3, 2;", "%r3, 3;")).functions
    (change,) = function.changes

    assert change.before is not None and change.after is not None
    assert (change.before.line, change.after.line) == (18, 19)


def test_opcodes_and_resources() -> None:
    after = KERNEL.replace("add.s32 %r4, %r3, 2;", "mul.lo.s32 %r4, %r3, %r5;").replace("tile[128]", "tile[64]")
    (function,) = differences(KERNEL, after).functions

    assert function.opcodes == {"add.s32": (2, 1), "mul.lo.s32": (0, 1)}
    assert function.resources == {"bytes of .shared": (128, 64), ".b32 registers": (4, 5)}


def test_functions_come_and_go() -> None:
    found = differences(KERNEL, ".version 8.0\n.target sm_80\n.address_size 64\n.entry other() { trap; }")

    assert [(one.name, one.status) for one in found.functions] == [("k", "removed"), ("other", "added")]


def test_functions_that_are_called_otherwise() -> None:
    other = KERNEL.replace(" k(", " other(")
    (found,) = differences(KERNEL, other).functions
    (changed,) = differences(KERNEL, other.replace("%r3, 2;", "%r3, 3;")).functions

    assert (found.name, found.status, found.was) == ("other", "renamed", "k")
    assert (changed.name, changed.status, changed.was, len(changed.changes)) == ("other", "changed", "k", 1)
    assert compare(ptxkit.parse(KERNEL), ptxkit.parse(other), {"k": "other"}).is_equal


def test_a_name_that_a_paired_function_takes() -> None:
    def module(*functions: str) -> ptxkit.Module:
        return ptxkit.parse("\n".join([".version 8.0", ".target sm_80", *functions]))

    adds = ".entry %s() { .reg .b32 %%r<9>; add.s32 %%r1, %%r2, %%r3; ret; }"
    waits = ".entry %s() { bar.sync 0; bar.sync 0; bar.sync 0; bar.sync 0; }"
    old = module(adds % "one", waits % "two")

    found = compare(old, module(adds % "two"), {"one": "two"})
    assert [(one.name, one.status) for one in found.functions] == [("two", "removed")]

    assert [change.before.text for change in found.functions[0].changes if change.before] == [".entry two()"]

    found = compare(old, module(adds % "two", adds % "one"), {"one": "two"})
    assert {(one.name, one.status, one.was) for one in found.functions} == {("two", "removed", ""), ("one", "added", "")}

    found = compare(old, module(adds % "two", waits % "one"), {"one": "two"})
    assert [(one.name, one.status, one.was) for one in found.functions] == [("one", "renamed", "two")]


def test_instances_of_a_template_are_paired_by_their_names() -> None:
    body = "{ .reg .b32 %r<3>; ld.param.b32 %r1, [NAME_param_0]; add.s32 %r2, %r1, 1; OPret; }\n"
    kernel = ".entry NAME(.param .b32 NAME_param_0) " + body
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    old = (
        head + kernel.replace("NAME", "_Z5firstIfEvi").replace("OP", "") + kernel.replace("NAME", "_Z6secondIfEvi").replace("OP", "trap; ")
    )
    new = (
        head + kernel.replace("NAME", "_Z6secondIdEvi").replace("OP", "trap; ") + kernel.replace("NAME", "_Z5firstIdEvi").replace("OP", "")
    )

    found = differences(old, new).functions

    assert {one.was: (one.name, one.status) for one in found} == {
        "_Z5firstIfEvi": ("_Z5firstIdEvi", "renamed"),
        "_Z6secondIfEvi": ("_Z6secondIdEvi", "renamed"),
    }


def test_a_removed_instruction_among_its_like_with_all_registers_counted_anew() -> None:
    def chain(stem: str, without: int | None) -> str:
        steps = "".join(f"    add.s32 %{stem}{i + 1}, %{stem}{i}, %{stem}{i // 2};\n" for i in range(1, 60) if i != without)
        return KERNEL.replace("%r<6>;", f"%r<6>; .reg .b32 %{stem}<70>;").replace("    bar.sync 0;\n", steps)

    assert shown(chain("a", None), chain("b", 30)) == [("removed", "add.s32 %a31, %a30, %a15;", None)]


def test_two_blocks_with_names_of_their_own() -> None:
    block = "{ .reg .b32 t; mov.b32 t, 1; add.s32 %r3, t, t; }\n"
    before = KERNEL.replace("    bar.sync 0;\n", block * 3)

    after = before.replace("{ .reg .b32 t; mov.b32 t, 1; add.s32 %r3, t, t; }", "{ .reg .b32 w; mov.b32 w, 1; add.s32 %r3, w, w; }")

    assert after != before
    assert not shown(before, after)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.sm_80.ptx"))[::4], ids=lambda path: path.name)
def test_fixtures_are_equal_to_themselves_renamed(path: Path) -> None:
    module = ptxkit.parse(files.read(str(path)))
    rewriters = all_rewriters()
    try:
        other = rewriters["rename"](module, prefix="x_", what="registers").module
    except Refused:
        module = rewriters["strip-debug"](module).module
        other = rewriters["rename"](module, prefix="x_", what="registers").module
    other = rewriters["rename"](rewriters["renumber"](other).module, prefix="x_", what="labels").module

    assert other.text.count("x_") > module.text.count("x_")
    assert compare(module, ptxkit.parse(other.text)).is_equal


@pytest.mark.parametrize("text", ["", "}", ".entry", ".version 8.0\n{{{", KERNEL[:400]])
def test_bad_text_is_compared_all_the_same(text: str) -> None:
    assert differences(text, text).is_equal
    assert not differences(text, KERNEL).is_equal


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.sampled_from(["drop", "twice", "brace", "swap", "rename"])), max_size=6))
def test_any_change_of_lines_is_shown_or_is_none(changes: list[tuple[int, str]]) -> None:
    lines = KERNEL.split("\n")
    for at, change in changes:
        if change == "drop" and len(lines) > 1:
            del lines[at % len(lines)]
        elif change == "twice":
            lines.insert(at % len(lines), lines[at % len(lines)])
        elif change == "brace":
            lines.insert(at % len(lines), "{" if at % 2 else "}")
        elif change == "swap":
            lines.insert(0, lines.pop(at % len(lines)))
        else:
            lines = [line.replace(f"%r{at % 6}", f"%r{(at + 1) % 6}") for line in lines]
    text = "\n".join(lines)
    there, back = differences(KERNEL, text), differences(text, KERNEL)

    assert there.is_equal == back.is_equal
    assert differences(text, text).is_equal
    if text.split() == KERNEL.split():
        assert there.is_equal
