"""Every rule: its bad example is found, its good one is not, and what it says of itself is complete."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ptxkit
from ptxkit.analyses import Rule, all_rules, lint
from ptxkit.analyses.framework.rule import FROM_THE_TEXT, NEVER_RUN, PTXAS, SILENT, in_module, select
from ptxkit.diagnostics import Severity

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "reactions.py"


def module_of(example: str) -> ptxkit.Module:
    """The example, put into a kernel unless it is a module itself."""
    return ptxkit.parse(in_module(example), "example.ptx")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
class TestRule:
    def test_bad_example_is_found(self, rule: Rule) -> None:
        found = lint(module_of(rule.bad), [rule])

        assert found
        assert {diagnostic.rule for diagnostic in found} == {rule.id}
        assert all(diagnostic.message and "\n" not in diagnostic.message for diagnostic in found)

    def test_good_example_is_clean(self, rule: Rule) -> None:
        assert [d.message for d in lint(module_of(rule.good), [rule])] == []

    def test_an_assembler_takes_the_good_example(self, rule: Rule) -> None:
        assert [d.message for d in lint(module_of(rule.good), select(["E", "V"])) if d.severity is Severity.ERROR] == []

    def test_says_what_it_is(self, rule: Rule) -> None:
        assert re.fullmatch(r"[A-Z]\d{3}", rule.id)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
        assert rule.summary
        assert re.search(r"\(\d", rule.why), "the section of the manual is missing"

    def test_says_how_it_is_proved_and_who_else_sees_it(self, rule: Rule) -> None:
        assert (rule.proof == FROM_THE_TEXT) == (rule.id[0] == "E")
        assert (rule.sanitizer == NEVER_RUN) == (rule.id[0] == "E")
        assert rule.ptxas == SILENT or re.match(r"(refuses the bad example|takes the bad example, and (warns|notes)): \S", rule.ptxas)
        # what is an error because assemblers refuse it is refused
        assert rule.ptxas.startswith("refuses") or rule.id[0] != "E"

    def test_examples_leave_out_what_is_put_around_them(self, rule: Rule) -> None:
        header = in_module("ret;").partition(".visible")[0]

        for example in (rule.bad, rule.good):
            assert not example.startswith((" ", "\n"))
            assert not (example.startswith(header) and (".entry" in example or ".func" in example))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not there")
def test_ptxas_says_what_is_written() -> None:
    """Only a few: benchmarks/reactions.py asks for all."""
    spec = importlib.util.spec_from_file_location("reactions_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    version = subprocess.run(["ptxas", "--version"], capture_output=True, text=True, check=True).stdout
    if PTXAS not in version:
        pytest.skip("another ptxas")
    for rule in select(["E101", "C001", "W001", "V003"]):
        assert benchmark.reaction(in_module(rule.bad)) == rule.ptxas


def test_each_file_is_named_as_its_rule() -> None:
    folder = BENCHMARK.parent.parent / "analyses" / "rules"
    names = {path.stem for path in folder.glob("*/*.py") if not path.name.startswith("_")}

    assert names == {rule.name.replace("-", "_") for rule in all_rules()}


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_the_first_line_of_a_file_names_its_rule(rule: Rule) -> None:
    assert select([rule.id]) == (rule,)
    assert select([rule.name]) == (rule,)
    assert (rule in select()) == rule.default


def test_rules_that_are_not_selected_are_not_imported() -> None:
    program = (
        "import sys; from ptxkit.analyses.framework.rule import select; select(['E', 'V']);"
        "print([name for name in sys.modules if name.startswith(('ptxkit.analyses.rules.mbarrier.', 'ptxkit.analyses.protocols'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_a_rule_is_selected_for_a_text_that_breaks_it(rule: Rule) -> None:
    assert rule in select(["ALL"], text=rule.bad)


def test_rules_whose_words_a_text_lacks_are_not_imported() -> None:
    program = (
        "import sys; from ptxkit.analyses.framework.rule import select; families = {one.family for one in select(text='ret;')};"
        "print(sorted(families), [name for name in sys.modules if name.startswith('ptxkit.analyses.rules.mbarrier.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['E', 'G', 'R', 'S', 'V', 'X'] []"


def test_a_comment_about_rules_concerns_those_whose_words_the_text_lacks() -> None:
    text = in_module("ret; // ptxkit: ignore[mbarrier-parity]")

    assert [one.rule for one in lint(ptxkit.parse(text))] == ["X001"]
