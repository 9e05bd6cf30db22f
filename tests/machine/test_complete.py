"""Every form of the table has semantics, or a reason why it is not executed; so has each combination of its modifiers."""

from __future__ import annotations

import pytest
from instructions import operations
from sampling import EVERY

from ptxkit.isa.forms import Form
from ptxkit.isa.table import all_forms
from ptxkit.machine.operation import Semantics, Unsupported
from ptxkit.machine.semantics import maker_of, semantics_of

NOT_YET: set[str] = set()
"""Chapters whose semantics are not written yet. Must become empty."""

CHAPTERS = sorted({form.file.removesuffix(".isa") for form in all_forms()})


def _forms(chapter: str) -> list[Form]:
    return [form for form in all_forms() if form.file == f"{chapter}.isa"]


def _without_semantics(chapter: str) -> list[str]:
    found = []
    for form in _forms(chapter):
        try:
            maker_of(form)
        except Unsupported:
            found.append(form.syntax)
    return found


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_form_has_semantics_or_a_reason(chapter: str) -> None:
    """A chapter that has become complete is to be taken off the list."""
    missing = _without_semantics(chapter)
    assert bool(missing) == (chapter in NOT_YET), missing


@pytest.mark.parametrize("chapter", [c for c in CHAPTERS if c not in NOT_YET])
def test_every_combination_of_modifiers_has_semantics_or_a_reason(chapter: str) -> None:
    for form in _forms(chapter):
        for op in operations(form, 120, EVERY):
            try:
                assert isinstance(semantics_of(op), Semantics), op.bound.opcode
            except Unsupported as reason:
                assert str(reason)
