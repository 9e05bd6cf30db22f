"""The plans that were worked out beforehand are those that the grammar gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ptxkit
from ptxkit.syntax import plans, shapes


def test_there_are_some() -> None:
    assert len(plans.shapes()) > 100


@pytest.mark.parametrize("rule", sorted({rule for rule, _ in plans.shapes()}))
def test_the_grammar_says_the_same(rule: str) -> None:
    """If not, because it has changed: `python benchmarks/plans.py`."""
    for of, key in plans.shapes():
        if of == rule:
            found = plans.ready(rule, key)
            assert found == shapes.by_grammar(rule, key)
            assert shapes.plan(rule, key) == found


def test_what_is_not_there() -> None:
    assert plans.ready("directive", ("no such shape",)) is None


def test_written_as_it_is_read() -> None:
    everything = {found: plan for found in plans.shapes() if (plan := plans.ready(*found)) is not None}

    assert plans.written(everything) == (Path(plans.__file__).with_name("plans.json")).read_text("utf-8")


def test_a_common_file_needs_no_grammar() -> None:
    text = ".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k()\\n{\\n\\t.reg .b32 \\t%r<2>;\\n\\tret;\\n}\\n"
    code = f"import sys, ptxkit; print(ptxkit.parse('{text}').diagnostics, 'parsimonious' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout == "() False\n"


def test_without_them_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = ".version 8.0\n.target sm_80\n.visible .entry k(\n\t.param .u64 k_param_0\n)\n{\n\t.reg .b32 \t%r<2>;\n\tret;\n}\n"
    before = ptxkit.parse(text)
    monkeypatch.setattr(plans, "_table", dict)
    shapes.plan.cache_clear()

    assert ptxkit.parse(text) == before
