"""Fixes: edits are applied together where they fit, and none that makes something worse."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ptxkit
from ptxkit import fixing
from ptxkit.analyses import all_rules
from ptxkit.analyses.framework.linting import lint
from ptxkit.analyses.framework.rule import in_module, select
from ptxkit.diagnostics import Diagnostic, Edit, Fix, Severity, Span
from ptxkit.syntax import Index


def finding(start: int, end: int, text: str, rule: str = "R001", severity: Severity = Severity.INFO, safe: bool = True) -> Diagnostic:
    fix = Fix("do", (Edit(start, end, text),), safe)
    return Diagnostic(rule, "name", severity, "found", Span(start, end, 1, start + 1, 1, end + 1), fix=fix)


def letters(pattern: str, replacement: str, also: str = "", rule: str = "X001") -> Callable[[str], Sequence[Diagnostic]]:
    """Finds every match of a pattern, to be replaced; and warns, without a fix, of every match of `also`."""

    def look(text: str) -> list[Diagnostic]:
        found = [finding(match.start(), match.end(), replacement) for match in re.finditer(pattern, text)]
        bad = [match.start() for match in re.finditer(also, text)] if also else []
        return found + [Diagnostic(rule, "bad", Severity.WARNING, "bad", Span(at, at + 1, 1, at + 1, 1, at + 2)) for at in bad]

    return look


def test_all_at_once() -> None:
    done = fixing.fix("a.a.a", letters("a", "b"))

    assert (done.text, len(done.applied), done.refused, list(done.left)) == ("b.b.b", 3, (), [])


def test_what_is_found_afterwards_is_fixed_in_turn() -> None:
    assert fixing.fix("aaaa.", letters(r"aa|b\.", "b")).text == "bb"


def test_what_makes_something_worse_is_left_alone() -> None:
    done = fixing.fix("a1\na?2\na3\na?4\na5", letters("a", "b", r"b\?"))

    assert done.text == "b1\na?2\nb3\na?4\nb5"
    assert len(done.applied) == 3
    assert len(done.refused) == 2


def test_what_never_ends_does() -> None:
    assert fixing.fix("a", letters(r"\Aa", "ab")).text == "a" + "b" * fixing.MOST_LOOKS


def test_unsafe_ones_only_when_asked() -> None:
    def look(text: str) -> list[Diagnostic]:
        return [finding(0, 1, "b", safe=False)] if text == "a" else []

    assert fixing.fix("a", look).text == "a"
    assert fixing.fix("a", look, unsafe=True).text == "b"


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 4), st.sampled_from(["", "x", "yz"])), max_size=12))
def test_edits_that_are_chosen_do_not_overlap(places: list[tuple[int, int, str]]) -> None:
    text = "".join(chr(0x4E00 + i) for i in range(40))
    chosen = fixing._compatible([finding(start, start + length, new) for start, length, new in places])
    edits = sorted({(edit.start, edit.end, edit.text) for one in chosen for edit in fixing._edits(one)})

    assert all(one[1] <= other[0] for one, other in pairwise(edits))
    result = fixing.apply(text, [edit for one in chosen for edit in fixing._edits(one)])
    gone = {i for start, end, _ in edits for i in range(start, end)}
    assert [letter for letter in result if letter > "z"] == [letter for i, letter in enumerate(text) if i not in gone]
    if places:
        assert chosen


HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
CASES = {
    "R004": [
        (".entry k() {\n\t.reg .u32 a, b, c;\n\tmov.u32 b, 1;\n}\n", ".entry k() {\n\t.reg .u32 b;\n\tmov.u32 b, 1;\n}\n"),
        (".entry k() {\n\t.reg .u32 a, b;\n\tret;\n}\n", ".entry k() {\n\tret;\n}\n"),
        (".entry k() {\n\t.reg .u32 a; // kept\nlabel:\n\tret;\n}\n", ".entry k() {\n\t // kept\n\tret;\n}\n"),
        (".entry k() { .reg .u32 a; ret; }\n", ".entry k() {  ret; }\n"),
        # callers pass it, and other variables would move
        (".entry k(.param .u32 p) {\n\tret;\n}\n", None),
        (".entry k() {\n\t.shared .u32 s;\n\tret;\n}\n", None),
    ],
    "R005": [(".entry k() {\n\t.reg .u32 a;\n\tmov.u32 a, 1;\n}\n", ".entry k() {\n\t.reg .u32 a;\n\tmov.u32 a, 1;\n\tret;\n}\n")],
    "E015": [
        (".entry k() {\n.reg .u32 a;\n.reg .u32 a;\nret;\n}\n", ".entry k() {\n.reg .u32 a;\nret;\n}\n"),
        (".entry k() {\n.reg .u32 a;\n.reg .f32 a;\nret;\n}\n", None),
    ],
    "X001": [
        (".entry k() {\n\t// ptxkit: ignore[R001] once\n\tret;\n}\n", ".entry k() {\n\tret;\n}\n"),
        (".entry k() {\n\tret; // ptxkit: ignore[R001] once\n}\n", ".entry k() {\n\tret;\n}\n"),
    ],
}


def looking(*words: str) -> Callable[[str], tuple[Diagnostic, ...]]:
    rules = select((*words, "E", "V"))
    return lambda text: lint(ptxkit.parse(text), rules)


@pytest.mark.parametrize(("rule", "before", "after"), [(rule, *case) for rule, cases in CASES.items() for case in cases])
def test_rules(rule: str, before: str, after: str | None) -> None:
    assert fixing.fix(HEADER + before, looking(rule, "R001")).text == HEADER + (after if after is not None else before)


def test_the_version_becomes_what_the_module_needs() -> None:
    text = HEADER.replace("8.0", "6.0") + ".entry k() {\n\tcp.async.commit_group;\n\tret;\n}\n"

    done = fixing.fix(text, looking("V"))
    assert done.text == text.replace("6.0", "7.0")
    assert not done.left


def test_a_wait_that_gives_up_is_repeated() -> None:
    rule = select(["M010"])[0]
    done = fixing.fix(in_module(rule.bad), looking("M"))

    assert [one.rule for one in done.applied] == ["M010"]
    assert not [one for one in done.left if one.rule == "M010"]
    assert re.search(r"\$retry_\d+:\s+mbarrier\.t\w+_wait[^;]*;\s+@!%p\d bra \$retry_\d+;", done.text)


def test_a_version_in_which_something_is_gone_is_refused() -> None:
    body = ".reg .b32 r;\n.reg .pred p;\nshfl.up.b32 r, r, 1, 0;\nactivemask.b32 r;\nret;\n"
    text = f".version 6.0\n.target sm_70\n.address_size 64\n.entry k() {{\n{body}}}\n".replace("activemask.b32 r", "cp.async.commit_group")

    assert fixing.fix(text, looking("V", "E")).text.startswith(".version 6.0")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_what_a_fix_leaves_is_no_worse(rule: ptxkit.analyses.Rule) -> None:
    text = in_module(rule.bad)
    look = looking(rule.id)
    before = look(text)
    done = fixing.fix(text, look, unsafe=True)

    fixed = {one.rule for one in done.applied}
    assert not done.applied or sum(one.rule in fixed for one in done.left) < sum(one.rule in fixed for one in before)
    assert fixing.fix(done.text, look, unsafe=True).text == done.text


@given(st.sampled_from([rule for rule in all_rules() if rule.id[0] in "RX"]), st.integers(0, 200), st.integers(0, 20))
def test_whatever_text_is_no_trouble(rule: ptxkit.analyses.Rule, start: int, length: int) -> None:
    text = f"{HEADER}.entry k() {{\n{rule.bad}\nret;\n}}\n"
    broken = text[:start] + text[start + length :]
    done = fixing.fix(broken, looking("R"), unsafe=True)

    assert not fixing._is_worse(looking("R")(broken), done.left)


def test_lines() -> None:
    module = ptxkit.parse(f"{HEADER}.entry k() {{\n\tbar.sync 0; bar.sync 1;\n  bar.sync 2; \n}}\n")
    index = Index(module)

    removed = [fixing.apply(module.text, [fixing.remove(index, (3, 1, i))]) for i in range(3)]
    assert [text.split("{")[1] for text in removed] == [
        "\n\t bar.sync 1;\n  bar.sync 2; \n}\n",
        "\n\tbar.sync 0; \n  bar.sync 2; \n}\n",
        "\n\tbar.sync 0; bar.sync 1;\n}\n",
    ]
