"""The parts of a module."""

from __future__ import annotations

import pytest

from ptxkit.analyses.framework.rule import Facts
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
