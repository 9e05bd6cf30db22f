"""Findings of functions, kept by what they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

import ptxkit
from ptxkit.analyses import all_rules, lint
from ptxkit.analyses.framework.rule import Facts, Rule, select
from ptxkit.analyses.linting.kept import Kept, Memory
from ptxkit.analyses.linting.linting import lint as lint_with_store
from ptxkit.analyses.linting.parts import keys_of, parts_of
from ptxkit.diagnostics import Diagnostic

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 tile[512];\n"
RACE = """\
.visible .entry {name}() .reqntid 64
{{
	.reg .b32 %r<4>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, tile;
	st.shared.u32 [%r2], %r1;
	ld.shared.u32 %r3, [%r2];
	ret;
}}
"""
CLEAN = """\
.visible .entry {name}()
{{
	.reg .b32 %r<4>;
	mov.u32 %r1, %tid.x;
	ret;
}}
"""
CALLED = """\
.func inner()
{
	.reg .b32 %r<4>;
	mov.u32 %r1, 1;
	ret;
}
.visible .entry outer()
{
	call inner, ();
	ret;
}
"""


class Counting(Memory):
    """A store that says what it is asked and told."""

    def __init__(self) -> None:
        super().__init__()
        self.known: list[int] = []
        self.told: list[int] = []

    def load(self, keys: Sequence[str]) -> Mapping[str, Kept]:
        found = super().load(keys)
        self.known.append(len(found))
        return found

    def save(self, found: Mapping[str, Kept]) -> None:
        self.told.append(len(found))
        super().save(found)


def module(*functions: str) -> ptxkit.Module:
    return ptxkit.parse(HEADER + "".join(functions), "k.ptx")


def kernels(*names: str, text: str = RACE) -> list[str]:
    return [text.format(name=name) for name in names]


@pytest.fixture
def store() -> Counting:
    return Counting()


def test_what_is_kept_is_what_is_found(store: Counting) -> None:
    text = module(*kernels("a", "b"), CALLED)
    expected = lint(text, all_rules())

    assert expected
    assert [lint_with_store(text, all_rules(), store=store) for _ in range(2)] == [expected, expected]
    assert store.known == [0, 3]
    assert store.told == [3]


def test_only_what_has_changed_is_looked_at(store: Counting) -> None:
    lint_with_store(module(*kernels("a", "b", "c", text=CLEAN)), store=store)
    changed = module(*kernels("a", text=CLEAN), *kernels("b"), *kernels("c", text=CLEAN))

    assert lint_with_store(changed, store=store) == lint(changed)
    assert store.known == [0, 2]


def test_findings_move_with_their_function(store: Counting) -> None:
    unused = ".visible .entry a()\n{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r1, 1;\n\tmov.u32 %r2, %r1;\n\tret;\n}\n"
    rules = [rule for rule in all_rules() if rule.family == "R"]
    lint_with_store(module(unused), rules, store=store)
    moved = module(*kernels("b", text=CLEAN), unused)
    expected = lint(moved, rules)

    assert {one.function for one in expected} >= {"a"}
    assert lint_with_store(moved, rules, store=store) == expected
    assert store.known[1] == 1


def test_what_speaks_of_lines_holds_where_it_stood(store: Counting) -> None:
    race = kernels("a")
    lint_with_store(module(*race), store=store)
    moved = module(*kernels("b", text=CLEAN), *race)

    assert lint_with_store(moved, store=store) == lint(moved)


@pytest.mark.parametrize(
    "changed",
    [
        HEADER.replace("512", "1024") + RACE.format(name="a"),
        HEADER.replace("sm_80", "sm_90") + RACE.format(name="a"),
        HEADER + RACE.format(name="a").replace("%r1, %tid.x", "%r1, %tid.y"),
        HEADER + RACE.format(name="a").replace("%r2, tile", "%r2, tiles"),
    ],
    ids=["variable", "target", "instruction", "name"],
)
def test_what_findings_depend_on_makes_another_key(changed: str) -> None:
    rules = select()

    def key(text: str, rules: Sequence[Rule] = rules, run: bool = True) -> tuple[str, ...]:
        facts = Facts(ptxkit.parse(text))
        return keys_of(facts, parts_of(facts), rules, run)

    before = key(HEADER + RACE.format(name="a"))

    assert key(changed) != before
    assert key(HEADER + RACE.format(name="a"), rules[1:]) != before
    assert key(HEADER + RACE.format(name="a"), run=False) != before
    assert key(HEADER + RACE.format(name="a")) == before


def test_functions_that_call_are_one_part() -> None:
    facts = Facts(module(*kernels("a"), CALLED, *kernels("b")))

    assert [part.children for part in parts_of(facts)] == [(4,), (5, 6), (7,)]


def test_comments_accept_what_was_kept(store: Counting) -> None:
    text = module(*kernels("a"))
    found = lint_with_store(text, store=store)
    rule = next(one.rule for one in found)
    ignored = ptxkit.parse(HEADER + RACE.format(name="a") + f"// ptxkit: ignore-file {rule}\n", "k.ptx")

    assert lint_with_store(ignored, store=store) == lint(ignored)


def test_a_memory_forgets_what_was_asked_for_long_ago() -> None:
    memory = Memory(2)
    memory.save({"a": Kept(()), "b": Kept(())})
    memory.load(["a"])
    memory.save({"c": Kept(())})

    assert sorted(memory.load(["a", "b", "c"])) == ["a", "c"]


def test_findings_are_kept_without_their_file(store: Counting) -> None:
    text = module(*kernels("a"))
    found: tuple[Diagnostic, ...] = lint_with_store(text, store=store)

    assert all(one.path == "k.ptx" for one in found)
    assert all(one.path is None for kept in store._known.values() for one in kept.findings)
