"""The parts of a module."""

from __future__ import annotations

import pytest

from ptxkit.analyses import all_rules, lint
from ptxkit.analyses.framework.rule import Facts, folders_for, in_module
from ptxkit.analyses.linting import parts as parts_module
from ptxkit.analyses.linting.parts import parts_of
from ptxkit.syntax import parse

TEXT = """.version 8.0
.target sm_80
.address_size 64
.func callee() { ret; }
.entry alone() { ret; }
.entry other() { STATEMENT ret; }
"""


@pytest.mark.parametrize(
    ("statement", "parts"),
    [
        ("call callee;", [(3, 5), (4,)]),
        ("call.uni callee;", [(3, 5), (4,)]),
        (".reg .b32 %call2, recall, call_3;", [(3,), (4,), (5,)]),
        ("// recall, then call", [(3,), (4,), (5,)]),
        (".extern .func external; call external;", [(3,), (4,), (5,)]),
        (".reg .b64 %f; mov.b64 %f, callee;", [(3,), (4,), (5,)]),
        (".extern .func external; .reg .b64 %f; mov.b64 %f, callee; call external;", [(3, 5), (4,)]),
        (".reg .b64 %f; proto: .callprototype _; call %f, proto;", [(3, 5), (4,)]),
        ("call undeclared;", [(3, 5), (4,)]),
    ],
)
def test_a_kernel_that_calls_no_function_with_a_body_is_a_part(statement: str, parts: list[tuple[int, ...]]) -> None:
    facts = Facts(parse(TEXT.replace("STATEMENT", f"\n{statement}\n")))

    assert [part.children for part in parts_of(facts)] == parts


def test_rules_that_the_words_of_a_part_rule_out_find_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule's bad example, linted by all rules, also by those whose words it lacks."""
    texts = [in_module(rule.bad) for rule in all_rules()]
    found = [lint(parse(text), all_rules(), run=False) for text in texts]
    everything = frozenset().union(*map(folders_for, texts))
    monkeypatch.setattr(parts_module, "folders_for", lambda _: everything)

    assert [lint(parse(text), all_rules(), run=False) for text in texts] == found
    assert any(folders_for(text) < everything for text in texts)
