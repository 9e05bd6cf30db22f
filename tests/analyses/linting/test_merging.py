"""What rules argue and what executions show, put together, on synthesized findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pytest

from ptxkit.analyses.framework.reporting import UNSURE_OF_BYTES
from ptxkit.analyses.framework.rule import all_rules
from ptxkit.analyses.linting.merging import merged
from ptxkit.analyses.linting.running import Shown
from ptxkit.diagnostics import Diagnostic, Related, Severity, Span

NAMES = {rule.id: rule.name for rule in all_rules()}


def span(line: int) -> Span:
    return Span(line * 100, line * 100 + 9, line, 1, line, 10)


def finding(rule: str, line: int, *related: int, severity: str = "error", **witness: Any) -> Diagnostic:
    others = tuple([Related(span(other), "there") for other in related])
    return Diagnostic(
        rule, NAMES[rule], Severity(severity), f"{rule} at {line}", span(line), None, "k", (), others, witness=witness or None
    )


def put_together(
    argued: Iterable[Diagnostic], shown: Iterable[Diagnostic], is_complete: bool = False
) -> list[tuple[str, int, str, list[int]]]:
    run = Shown("k", frozenset({"k"}), tuple(shown), is_complete)
    return [
        (one.rule, one.span.line, str(one.severity), [related.span.line for related in one.related])
        for one in merged(all_rules(), argued, [run])
    ]


def test_a_finding_stands_where_the_rule_says_what_is_missing() -> None:
    assert put_together([finding("P003", 19, 20, 24)], [finding("P003", 24, 20)]) == [("P003", 19, "error", [20, 24])]


def test_what_is_shown_is_not_doubted() -> None:
    argued = attrs.evolve(finding("P003", 19, 20, 24), notes=("the same holds in line 30", *UNSURE_OF_BYTES))
    run = Shown("k", frozenset({"k"}), (finding("P003", 24, 20),), False)

    assert [one.notes for one in merged(all_rules(), [argued], [run])] == [("P003 at 19", "the same holds in line 30")]


def test_what_is_not_shown_is_a_warning_whatever_ran() -> None:
    for rule in ("P001", "C001"):
        assert put_together([finding(rule, 9)], []) == [(rule, 9, "warning", [])]
        assert put_together([finding(rule, 9)], [], is_complete=True) == [(rule, 9, "warning", [])]


@pytest.mark.parametrize("rule", ["W003", "W004", "T003"])
def test_registers_in_flight_on_some_path_only_are_a_note_if_a_run_to_completion_shows_none(rule: str) -> None:
    doubtful, certain = finding(rule, 9, 5, severity="warning"), finding(rule, 9, 5)

    def severity(one: Diagnostic, *lines: int) -> str:
        (found,) = merged(all_rules(), [one], [Shown("k", frozenset({"k"}), (), True, lines=frozenset(lines))])
        return str(found.severity)

    assert severity(doubtful, 5) == "info"
    # the operation was not executed
    assert severity(doubtful) == "warning"
    assert severity(certain, 5) == "warning"


def test_an_access_that_was_executed_and_seen_as_right_is_a_note() -> None:
    assert put_together([finding("S001", 9)], []) == [("S001", 9, "warning", [])]
    assert put_together([finding("S001", 9)], [], is_complete=True) == [("S001", 9, "info", [])]


def test_what_no_execution_sees_is_not_refuted_by_one() -> None:
    run = Shown("k", frozenset({"k"}), (), True, lines=frozenset({5}))
    (found,) = merged(all_rules(), [finding("S007", 5, severity="warning")], [run])

    assert found.severity is Severity.WARNING


def test_a_stage_that_nothing_overwrites_in_a_run_to_completion_is_a_note() -> None:
    run = Shown("k", frozenset({"k"}), (), True, lines=frozenset({5}))
    (found,) = merged(all_rules(), [finding("W007", 5)], [run])

    assert found.severity is Severity.INFO


def test_what_is_argued_and_shown_with_some_inputs_is_a_warning() -> None:
    shown = [finding("C006", 23, 22, severity="info")]

    assert put_together([finding("C006", 22)], shown) == [("C006", 22, "warning", [23])]
    assert put_together([], shown) == [("C006", 23, "info", [22])]


def test_a_deadlock_that_follows_is_no_finding_of_its_own() -> None:
    deadlock = finding("B003", 22, ends="deadlock")

    assert put_together([], [finding("B006", 19), deadlock]) == [("B006", 19, "error", [22])]
    assert put_together([], [deadlock]) == [("B003", 22, "error", [])]


def test_a_deadlock_that_a_rule_explains_stays() -> None:
    deadlock = finding("C005", 20, ends="deadlock")

    found = put_together([finding("C005", 17, 20)], [finding("B006", 9), deadlock])

    assert found == [("B006", 9, "error", []), ("C005", 17, "error", [20])]


def test_one_wrong_mask_is_one_finding() -> None:
    shown = [finding("C004", 19), finding("C005", 19), finding("C006", 20, 19, severity="warning")]

    assert put_together([], shown) == [("C004", 19, "error", [20])]


def test_one_wait_for_too_few_groups_explains_all_its_copies() -> None:
    shown = [finding("A006", 210, 59), finding("A003", 237, 59), finding("A003", 240, 66)]

    assert put_together([finding("A003", 173, 237)], shown) == [("A003", 173, "error", [237, 210, 59, 240, 66])]


def conflict(rule: str, line: int, *related: int, variable: str = "s", severity: str = "error", kind: str = "read") -> Diagnostic:
    accesses = [{"kind": "write"}, {"kind": kind}]
    return finding(rule, line, *related, severity=severity, space="shared", variable=variable, accesses=accesses)


def test_a_missing_fence_explains_all_accesses_to_a_variable() -> None:
    shown = [conflict("P002", 9, 3), conflict("P002", 12, 5), conflict("P002", 14, 5, variable="t")]

    assert put_together([], shown[:2]) == [("P002", 9, "error", [3, 12, 5])]
    assert put_together([], shown) == [("P002", 9, "error", [3, 12, 5, 14])]
    assert put_together([], [shown[0], shown[2]]) == [("P002", 9, "error", [3]), ("P002", 14, "error", [5])]


def test_one_index_that_leaves_an_array_is_one_finding_in_all_copies_of_a_loop() -> None:
    shown = [finding("S002", line, space="shared", variable=name) for line, name in ((9, "s"), (12, "s"), (14, "t"))]
    elsewhere = [finding("S002", line, space="global", variable="s") for line in (20, 22)]

    assert put_together([], shown) == [("S002", 9, "error", [12]), ("S002", 14, "error", [])]
    assert put_together([], elsewhere) == [("S002", 20, "error", []), ("S002", 22, "error", [])]


def test_what_rules_infer_of_one_cause_is_one_finding() -> None:
    argued = [finding("A003", 9), finding("A003", 12), finding("P002", 20, 3), finding("P002", 22, 3), finding("P002", 24)]

    assert put_together(argued, []) == [("A003", 9, "warning", [12]), ("P002", 20, "warning", [3, 22]), ("P002", 24, "warning", [])]


def test_each_register_that_nothing_writes_is_a_finding() -> None:
    assert len(put_together([finding("R001", 9, severity="warning"), finding("R001", 9, severity="warning")], [])) == 2


def test_what_a_thread_reads_too_early_has_not_been_written_yet() -> None:
    early, unwritten = conflict("A003", 9, 3), finding("R008", 11, 9, severity="warning", space="shared", variable="s")

    assert put_together([], [early, unwritten]) == [("A003", 9, "error", [3])]
    assert len(put_together([], [conflict("A003", 8, 3), unwritten])) == 2
    assert len(put_together([], [conflict("A003", 9, 3, kind="use"), unwritten])) == 2


def test_a_doubtful_conflict_explains_nothing() -> None:
    unwritten = finding("R008", 11, 9, severity="warning", space="shared", variable="s")

    assert len(put_together([], [conflict("A003", 9, 3, severity="info"), unwritten])) == 2


def test_a_note_hides_no_race() -> None:
    race = finding("S003", 9, 3, severity="warning")

    assert len(put_together([race, finding("P001", 9, 3, severity="info")], [])) == 2
    assert [one[0] for one in put_together([race, finding("P001", 9, 3, severity="warning")], [])] == ["P001"]


def test_who_has_exited_misses_barriers_and_collectives_alike() -> None:
    shown = [finding("C001", 177, severity="warning", exited=8), finding("C008", 240)]

    assert put_together([], shown) == [("C008", 240, "error", [177])]


def test_a_wrong_address_is_no_cause_of_what_is_argued_there() -> None:
    argued = finding("M010", 9, severity="warning")

    assert {one[0] for one in put_together([argued], [finding("M012", 9)])} == {"M010", "M012"}


def with_unsure(argued: Iterable[Diagnostic], unsure: Iterable[Diagnostic]) -> list[tuple[str, int, str]]:
    run = Shown("k", frozenset({"k"}), (), False, tuple(unsure))
    return [(one.rule, one.span.line, str(one.severity)) for one in merged(all_rules(), argued, [run])]


def test_what_shows_with_some_inputs_only_is_not_reported_by_itself() -> None:
    unsure = [finding("S003", 9, 12, severity="info")]
    assert with_unsure([], unsure) == []
    assert with_unsure([finding("S003", 9)], unsure) == [("S003", 9, "warning")]
