"""Reduction: what is left is what the test asks for, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit import files
from ptxkit.rewriters.reduction import Command, Journal, Validity, ddmin, reduced, steps
from ptxkit.rewriters.reduction.testing import Test

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "kernels"


@given(st.lists(st.integers(0, 60), unique=True, max_size=6), st.integers(0, 60), st.integers(1, 4))
def test_delta_debugging_finds_just_what_is_needed(needed: list[int], count: int, jobs: int) -> None:
    """Where each element is needed or not, what is needed stays."""
    wanted = {one for one in needed if one < count}

    def first(candidates: Iterator[Sequence[int]]) -> tuple[int, Sequence[int]] | None:
        return next(((i, one) for i, one in enumerate(candidates) if wanted <= set(one)), None)

    assert set(ddmin.rest(list(range(count)), first)) == wanted


def test_delta_debugging_takes_few_tests() -> None:
    tests = 0

    def first(candidates: Iterator[Sequence[int]]) -> tuple[int, Sequence[int]] | None:
        nonlocal tests
        for i, one in enumerate(candidates):
            tests += 1
            if {100, 7000} <= set(one):
                return i, one
        return None

    assert ddmin.rest(list(range(10_000)), first) == [100, 7000]
    assert tests < 80


def run(text: str, test: Test, journal: Journal | None = None, jobs: int = 1) -> str:
    module = ptxkit.parse(text)
    validity = Validity(module)
    validity.ptxas = None
    return reduced(module, test, validity, journal or Journal(None, ""), jobs).module.text


@pytest.mark.parametrize(
    ("name", "needles"),
    [
        ("reduce.sm_80", ["shfl.sync.down"]),
        ("softmax.sm_80", ["ex2.approx", "bar.sync"]),
        ("inline_asm.sm_90a", ["addc"]),
        ("triton_add.sm_90a", ["st.global"]),
    ],
)
def test_a_fixture_becomes_the_instructions_that_are_looked_for(name: str, needles: list[str]) -> None:
    text = files.read(str(FIXTURES / f"{name}.ptx"))
    found = ptxkit.parse(run(text, lambda one: all(needle in one for needle in needles)))

    instructions = [one for function in found.functions for one in function.instructions]
    assert len(instructions) == len(needles)
    assert not found.diagnostics
    assert len(found.text) < 400


KERNEL = """.version 8.0
.target sm_80
.address_size 64
.global .u32 unused;
// a remark
.visible .entry k(.param .u64 p, .param .u32 n) .maxntid 128
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<2>;
    {
        .reg .b32 inner;
        mov.b32 inner, 7;
        add.s32 %r3, inner, 1;
    }
    @%p1 bra end;
    ld.global.cg.u32 %r4, [%rd1+16];
end:
    ret;
}
"""


def test_guards_offsets_modifiers_parameters_directives_comments_and_declarations_go() -> None:
    found = run(KERNEL, lambda text: "ld.global" in text)

    assert " ".join(found.split()) == (
        ".version 8.0 .target sm_80 .address_size 64 .visible .entry k() { .reg .b32 %r<1>; .reg .b64 %rd<1>; ld.global.u32 %r0, [%rd0]; }"
    )
    for gone in ("unused", "remark", ".param", "maxntid", "inner", "+16", ".cg", "bra", ".pred"):
        assert gone not in found


def test_values_that_must_be_defined_become_zero() -> None:
    """A test that refuses registers nothing has written: instructions cannot simply go."""
    lines = [f"    add.s32 %r{i}, %r{i - 1}, %r{i // 2};" for i in range(1, 60)]
    body = "\n".join(["    mov.b32 %r0, 5;", *lines, "    mul.lo.s32 %r60, %r59, %r30;", "    ret;"])
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{{\n    .reg .b32 %r<61>;\n{body}\n}}\n"

    def test(candidate: str) -> bool:
        written: set[str] = set()
        for function in ptxkit.parse(candidate).functions:
            for instruction in function.instructions:
                names = [operand.text for operand in instruction.operands]
                if any(name.startswith("%") and name not in written for name in names[1:]):
                    return False
                written.update(names[:1])
        return "mul.lo" in candidate

    found = ptxkit.parse(run(text, test))
    assert len(found.functions[0].instructions) == 1


def test_several_jobs_find_the_same() -> None:
    def test(text: str) -> bool:
        return "ld.global" in text

    assert run(KERNEL, test, jobs=3) == run(KERNEL, test)


def test_candidates_are_valid_if_the_module_was() -> None:
    seen: list[str] = []

    def test(text: str) -> bool:
        seen.append(text)
        return "add.s32" in text

    run(KERNEL, test)
    assert all(Validity(ptxkit.parse(text)).checks for text in seen)


def test_an_invalid_module_may_become_anything() -> None:
    found = run(KERNEL.replace("add.s32", "odd.s32"), lambda text: "odd.s32" in text)

    assert len(found) < 150


def test_a_test_that_fails_at_first() -> None:
    with pytest.raises(ValueError, match="fails on the module itself"):
        run(KERNEL, lambda text: False)


def test_what_is_known_is_not_tried_again(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    count = 0

    def test(text: str) -> bool:
        nonlocal count
        count += 1
        return "add.s32" in text

    first = run(KERNEL, test, Journal(path, "subject"))
    tried, again = count, Journal(path, "subject")
    assert again.resumed
    assert run(KERNEL, test, again) == first
    assert count == tried
    assert not Journal(path, "another").resumed


@pytest.mark.parametrize("step", steps.steps())
def test_each_edit_of_a_step_can_be_made_alone(step: steps.Step) -> None:
    module = ptxkit.parse(KERNEL)
    for edit in step.edits(module):
        kept = {path: nodes for path, nodes in edit.items() if not any(path[:n] in edit for n in range(1, len(path)))}
        assert module.edit(kept).text != module.text


@pytest.mark.parametrize(
    ("command", "outcome"),
    [("grep -q add", True), ("grep -q nothing {}", False), ("sleep 600;", False), ("kill -SEGV $$;", False)],
)
def test_commands(command: str, outcome: bool) -> None:
    assert Command(command, timeout=1.0 if "sleep" in command else 600.0).succeeds(KERNEL) is outcome
