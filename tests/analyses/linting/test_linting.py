"""Rules and executions together."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, in_module, select
from ptxkit.analyses.linting.merging import by_cause
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.diagnostics import Diagnostic, Related, Severity, Span
from ptxkit.machine.loading import Code

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "lint"
CASES = [(row["name"], row["rule"].split()) for row in csv.DictReader((FOLDER / "cases.tsv").read_text().splitlines(), delimiter="\t")]


def findings(name: str, *, run: bool = True) -> list[Diagnostic]:
    path = FOLDER / name
    found = lint(ptxkit.parse(path.read_text(), str(path)), run=run)
    return [one for one in found if one.severity is not Severity.INFO]


@pytest.mark.parametrize(("name", "rules"), CASES, ids=[name for name, _ in CASES])
def test_pairs(name: str, rules: list[str]) -> None:
    bad = findings(f"{name}.bad.ptx")

    assert set(rules) & {one.rule for one in bad}
    assert findings(f"{name}.good.ptx") == []


@pytest.mark.parametrize("name", ["exchange_in_warp", "race_in_a_function", "vector_at_half_stride"])
def test_an_error_has_its_execution(name: str) -> None:
    error = next(one for one in findings(f"{name}.bad.ptx") if one.severity is Severity.ERROR)

    assert error.witness is not None
    assert error.witness["accesses"]
    assert json.loads(json.dumps(error.as_json()))["witness"]["launch"]["block"] == [64, 1, 1] or name == "vector_at_half_stride"


def test_without_a_run_nothing_is_an_error_that_could_be_shown() -> None:
    for name, _ in CASES:
        argued = [one for one in findings(f"{name}.bad.ptx", run=False) if one.severity is Severity.ERROR]

        assert all(one.rule[0] in "EVF" for one in argued)


def test_without_a_run_nothing_is_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Executed(Exception):
        """Raised in place of a launch."""

    def launch(*_: object, **__: object) -> None:
        raise Executed

    monkeypatch.setattr("ptxkit.machine.launch", launch)
    path = FOLDER.parent / "kernels" / "mbarrier.sm_90a.ptx"
    module = ptxkit.parse(path.read_text(), str(path))

    lint(module, run=False)
    with pytest.raises(Executed):
        lint(module)


@pytest.mark.parametrize("run", [False, True])
def test_facts_of_a_kernel_are_released_before_the_next(run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptxkit.analyses.linting.linting.GROUP", 1)
    seen: list[Routine] = []

    def check(facts: Facts) -> Iterator[Diagnostic]:
        assert not any(routine._known for routine in seen)
        seen.extend(facts.routines)
        for routine in facts.routines:
            liveness(routine)
        return iter(())

    lint(ptxkit.parse(UNDECLARED), [attrs.evolve(select(["R001"])[0], check=check)], run=run)

    assert [routine.name for routine in seen] == ["a", "b"]


@pytest.mark.parametrize(("group", "count"), [(1, 3), (1000, 1)])
def test_small_kernels_share_a_machine(group: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []

    def load(module: ptxkit.Module, target: str = "") -> Code:
        loads.append(target)
        return loaded(module, target)

    monkeypatch.setattr("ptxkit.analyses.linting.linting.GROUP", group)
    monkeypatch.setattr("ptxkit.analyses.execution.loading.loaded", load)
    kernels = [f".entry {name}() {{ .shared .b32 s; st.shared.b32 [s], 1; bar.sync 0; ret; }}\n" for name in "abc"]
    lint(ptxkit.parse("".join([".version 8.0\n.target sm_80\n.address_size 64\n", *kernels])))

    assert len(loads) == count


def test_without_a_run_what_is_about_the_module_is_found_once() -> None:
    found = lint(ptxkit.parse(UNDECLARED), run=False)

    assert [(one.rule, one.span.line) for one in found if one.severity is Severity.ERROR] == [("E010", 5), ("E010", 6)]


UNDECLARED = """.version 8.0
.target sm_80
.address_size 64
.extern .func external;
.entry a() { mov.u32 %x, 1; ret; }
.entry b() { mov.u32 %y, 1; call external; ret; }
"""


def test_what_is_argued_and_shown_is_one_finding() -> None:
    rule = select(["S003"])[0]
    found = lint(ptxkit.parse(in_module(rule.bad)), [rule])

    assert len(found) == 1
    assert found[0].severity is Severity.ERROR
    assert found[0].witness is not None


def _race(line: int, other: int) -> Diagnostic:
    spans = [Span(at * 10, at * 10 + 5, at, 1, at, 6) for at in (line, other)]
    return Diagnostic("S003", "smem-race", Severity.ERROR, f"race of {line} and {other}", spans[0], related=(Related(spans[1], "other"),))


def test_one_finding_for_what_has_a_line_in_common() -> None:
    found = by_cause([_race(10, 4), _race(11, 4), _race(30, 20)])

    assert [one.span.line for one in found] == [10, 30]
    assert {related.span.line for related in found[0].related} == {4, 11}


def test_one_finding_for_the_races_in_one_variable() -> None:
    both = {"space": "shared", "accesses": [{"kind": "read"}, {"kind": "update"}]}
    of = {10: {"variable": "s"}, 20: {"variable": "s"}, 30: {"variable": "t"}, 40: {}, 50: {}}
    found = by_cause([attrs.evolve(_race(line, line + 1), witness={**both, **variable}) for line, variable in of.items()])

    assert [one.span.line for one in found] == [10, 30, 40, 50]
    assert {related.span.line for related in found[0].related} == {11, 20, 21}


def test_a_kernel_for_one_warp_is_no_race_of_several() -> None:
    path = FOLDER.parent / "kernels" / "stmatrix.sm_90a.ptx"

    assert [one.rule for one in lint(ptxkit.parse(path.read_text(), str(path)), budget=600.0) if one.severity is not Severity.INFO] == []


INDEXED = """.visible .entry k(.param .u64 p, .param .u32 n) .reqntid 64
{{
.reg .b32 %r<8>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
{}
add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], 0; ret;
}}"""
ELEMENT = "mad.lo.s32 %r1, %r1, 64, %r2; mul.wide.s32 %rd2, %r1, 4;"
TILE = """shr.u32 %r3, %r2, 3; and.b32 %r4, %r2, 7; mad.lo.s32 %r5, %r1, 8, %r3; shl.b32 %r5, %r5, 10; add.s32 %r5, %r5, %r4;
mul.wide.s32 %rd2, %r5, 4;"""


@pytest.mark.parametrize(("index", "rules"), [(ELEMENT, ["S004"]), (TILE, [])])
def test_tiles_are_whole_in_a_grid(index: str, rules: list[str]) -> None:
    module = ptxkit.parse(in_module(INDEXED.format(index)))

    assert [one.rule for one in lint(module, select(["S004"]), run=False)] == rules
