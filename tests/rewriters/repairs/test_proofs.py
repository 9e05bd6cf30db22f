"""What is not offered: candidates that hide a finding, or do harm."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

pytest.importorskip("numpy")

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.diagnostics import Diagnostic, Edit, Severity
from ptxkit.rewriters.repairs import repair
from ptxkit.rewriters.repairs.counting import GIVEN_UP
from ptxkit.rewriters.repairs.cures import candidates
from ptxkit.rewriters.repairs.cures.mbarriers import _Mbarriers
from ptxkit.rewriters.repairs.edits import Shift, joined, parts
from ptxkit.rewriters.repairs.looking import Looking, usual_rules
from ptxkit.rewriters.repairs.points import Point, between, level
from ptxkit.rewriters.repairs.solving import Unsolved, solve
from ptxkit.rewriters.repairs.trouble import trouble
from ptxkit.rewriters.repairs.trying import Trying
from ptxkit.syntax import parse

CASES = Path(__file__).parent / "cases"
LOOKING = Looking(None, usual_rules())


def text_of(name: str) -> str:
    return (CASES / f"{name}.ptx").read_text(encoding="utf-8")


def tried(text: str, line: int, statement: str) -> tuple[list[Diagnostic], dict[str, str]]:
    """What stands against a statement before a line: what lint finds, and how runs end under each schedule."""
    seen = LOOKING.at(text)
    (finding,) = [one for one in seen.found if one.severity is Severity.ERROR]
    at = seen.facts.index.line_starts[line - 1]
    edits = (Edit(at, at, f"{statement}\n"),)
    trying = Trying(LOOKING, seen, finding)
    after = LOOKING.at(text[:at] + f"{statement}\n" + text[at:])
    ran = trying.run(edits)
    assert ran is not None
    return trying.left(after, edits), {"lockstep": ran.fault}


def test_a_barrier_that_not_all_threads_come_to_is_no_repair() -> None:
    left, _ = tried(text_of("rounds"), 27, "bar.sync 0;")

    assert left


def test_a_barrier_on_the_wrong_side_is_no_repair() -> None:
    left, _ = tried(text_of("neighbour"), 18, "bar.sync 0;")

    assert [one.rule for one in left] == ["S003"]


def test_a_barrier_between_is_one() -> None:
    left, faults = tried(text_of("neighbour"), 20, "bar.sync 0;")

    assert not left and faults == {"lockstep": ""}


def test_places_are_where_all_threads_come() -> None:
    seen = LOOKING.at(text_of("rounds"))
    (finding,) = [one for one in seen.found if one.severity is Severity.ERROR]
    found = trouble(seen, finding)
    assert found is not None
    first, last = found.pairs[0]

    everywhere = between(found.routine, first, last)
    for_all = between(found.routine, first, last, Level.CTA)

    assert for_all and set(for_all) < set(everywhere)
    assert all(level(found.routine, point) >= Level.CTA for point in for_all)


def test_a_place_is_on_every_path() -> None:
    text = """.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {
.reg .pred %p1; .reg .b32 %r<3>; .shared .b32 s[64]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
st.shared.u32 [s], %r1; @%p1 bra L; st.shared.u32 [s+4], %r1; L: ld.shared.u32 %r2, [s]; ret; }"""
    (routine,) = routines(parse(text))
    store, branch, load = 2, 3, 5

    # neither before nor after the store that a branch skips
    assert between(routine, store, load) == [Point(load), Point(branch)]
    assert between(routine, load, store) == []


def test_a_compiler_has_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxkit.revalidation import Outcome
    from ptxkit.rewriters.repairs import solving

    asked = []

    class Said:
        validator, diagnostics = "ptxas", ()

        def __init__(self, outcome: Outcome) -> None:
            self.outcome = outcome

    def revalidate(module: object, target: object, using: object) -> Said:
        asked.append(module)
        return Said(Outcome.VALID if "bar.sync" not in module.text else Outcome.INVALID)  # type: ignore[attr-defined]

    monkeypatch.setattr(solving, "revalidate", revalidate)
    seen = LOOKING.at(text_of("neighbour"))
    solved = solve(LOOKING, seen, seen.found[0], ["ptxas"])

    assert asked and isinstance(solved, Unsolved) and "ptxas refuses" in solved.why


def test_candidates_come_from_the_cheapest_on() -> None:
    seen = LOOKING.at(text_of("unwaited"))
    found = trouble(seen, seen.found[0])
    assert found is not None

    prices = [one.price for one in candidates(found)]

    assert prices == sorted(prices) and len(prices) > 1


def test_a_finding_of_no_function_is_left() -> None:
    seen = LOOKING.at(text_of("neighbour"))

    assert isinstance(solve(LOOKING, seen, attrs.evolve(seen.found[0], function=None)), Unsolved)


def test_a_text_with_syntax_errors_is_left_as_it_is() -> None:
    text = text_of("neighbour").replace("ret;", "ret %%;")

    assert repair(parse(text), compilers=()).text == text


def test_lines_end_as_they_did() -> None:
    found = repair(parse(text_of("neighbour").replace("\n", "\r\n")), compilers=())

    assert found.is_clean and "\n" not in found.text.replace("\r\n", "")


# --- offsets


def test_offsets_after_edits_are_those_before() -> None:
    shift = Shift([Edit(3, 3, "xx"), Edit(6, 8, ""), Edit(9, 10, "yyy")])

    # 0123456789a -> 012xx3458yyya
    assert [shift.old(i) for i in (0, 2, 5, 7, 8)] == [0, 2, 3, 5, 8]
    assert shift.old(3) == shift.old(4) == 3
    assert [i for i in range(13) if shift.is_new(i)] == [3, 4, 9, 10, 11]


def test_what_is_put_in_at_one_place_is_one_edit() -> None:
    assert joined([Edit(3, 3, "a;\n"), Edit(5, 6, ""), Edit(3, 3, "b;\n")]) == (Edit(3, 3, "a;\nb;\n"), Edit(5, 6, ""))


def test_a_repair_is_tried_without_each_of_its_parts() -> None:
    both, change = Edit(3, 3, "a;\n\tb;\n\t"), Edit(5, 6, "")
    found = [set(edits) for edits in parts([[both], [change]])]

    assert found == [{change}, {change, Edit(3, 3, "\tb;\n\t")}, {change, Edit(3, 3, "a;\n\t")}, {both}]


def test_a_move_is_one_edit() -> None:
    out, into, other = Edit(3, 6, ""), Edit(9, 9, "a;\n"), Edit(20, 21, "")

    assert [set(edits) for edits in parts([[out, into], [other]])] == [{other}, {out, into}]


def test_the_launch_that_shows_a_finding_is_found_by_its_numbers() -> None:
    # the finding itself calls parameters by number, as their names are made of that of the kernel
    seen = LOOKING.at(text_of("numbered"))
    (finding,) = seen.found

    trying = Trying(LOOKING, seen, finding)

    own = trying.own()
    assert finding.witness is not None and "parameter 1 = " in finding.witness["inputs"]
    assert own is not None and own.found


def test_schedules_that_cannot_differ_are_run_once() -> None:
    seen = LOOKING.at(text_of("neighbour"))
    copied = LOOKING.at(text_of("copied"))

    assert Trying(LOOKING, seen, seen.found[0]).schedules == ("lockstep", 1)
    assert Trying(LOOKING, copied, copied.found[0]).schedules == ("lockstep", "early", 1)


@pytest.mark.parametrize(
    ("target", "test"), [("sm_80", "mbarrier.test_wait.parity.shared.b64"), ("sm_90a", "mbarrier.try_wait.parity.shared::cta")]
)
def test_a_wait_suits_the_target(target: str, test: str) -> None:
    text = text_of("arrivals").replace(".target sm_90a", f".target {target}")
    seen = Looking(None, usual_rules(), target).at(text)
    finding = next(one for one in seen.found if one.function is not None)
    of = trouble(seen, finding)

    assert of is not None
    assert _Mbarriers(of)._spin("%r1", "0").startswith(f"{{ .reg .pred %is_over; AGAIN: {test}")


def test_a_number_of_an_argued_finding_needs_an_execution() -> None:
    seen = LOOKING.at(text_of("arrivals"))
    finding = next(one for one in seen.found if one.severity is not Severity.INFO)
    of = trouble(seen, finding)

    assert of is not None
    assert {one.is_number for one in candidates(of) if one.says.startswith("make") and "init" in one.says} == {True}


def test_a_run_is_given_up_when_it_says_enough() -> None:
    seen = LOOKING.at(text_of("neighbour"))
    (finding,) = [one for one in seen.found if one.severity is Severity.ERROR]
    trying = Trying(LOOKING, seen, finding)

    ran = trying.run((Edit(0, 0, "// nothing\n"),), is_enough=lambda found: True)

    assert ran is not None and ran.fault == GIVEN_UP
    whole = trying.own()
    assert whole is not None and not whole.fault
