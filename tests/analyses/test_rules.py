"""Every rule: its bad example is found, its good one is not, and what it says of itself is complete."""

from __future__ import annotations

import re

import pytest

import ptxkit
from ptxkit.analyses import Rule, all_rules, lint
from ptxkit.analyses.rule import select
from ptxkit.diagnostics import Severity

KERNEL = """.version 9.0
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .pred %p<8>;
.reg .b16 %rs<8>;
.reg .b32 %r<16>;
.reg .b64 %rd<16>;
.reg .f32 %f<16>;
.reg .f64 %fd<8>;
{}
ret;
}}
"""


def module_of(example: str) -> ptxkit.Module:
    """The example, put into a kernel unless it is a module itself."""
    return ptxkit.parse(example if ".version" in example else KERNEL.format(example), "example.ptx")


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
