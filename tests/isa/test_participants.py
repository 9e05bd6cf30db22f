"""What the table says of who takes part: masks of lanes, thread counts, and whether those that have ended are missed."""

from __future__ import annotations

import pytest

from ptxkit.isa.binding import Bound, bind
from ptxkit.isa.forms import NotationError
from ptxkit.isa.notation import parse_entries
from ptxkit.isa.shapes import immediate, register
from ptxkit.isa.table import all_forms, forms


def test_every_mask_of_members_is_named() -> None:
    for form in all_forms():
        read = [name for name, rules in form.rules.items() if name == "membermask" and rules[0].role == "r"]
        assert [one.what for one in form.members] == read or form.mnemonic == "activemask", form


def test_activemask_finds_its_members_out() -> None:
    bound = bind("activemask.b32", (register(".b32"),))

    assert isinstance(bound, Bound)
    assert bound.members is not None
    assert bound.members.writes


def test_barriers_count_threads_if_they_say_so() -> None:
    plain = bind("bar.sync", (immediate("int"),))
    counted = bind("bar.sync", (immediate("int"), immediate("int")))

    assert isinstance(plain, Bound)
    assert isinstance(counted, Bound)
    assert plain.threads is None
    assert counted.threads is not None
    assert counted.threads.path == (1,)


def test_reductions_say_so() -> None:
    reduces = {form.syntax.split()[0] for form in all_forms() for one in form.barrier if one.what.action == "reduce"}

    assert all(".red" in syntax for syntax in reduces)
    assert len(reduces) == 4


@pytest.mark.parametrize(("mnemonic", "whole"), [("mma", True), ("ldmatrix", True), ("wmma", True), ("bar", False), ("shfl", False)])
def test_who_has_ended_is_missed_by_matrix_instructions(mnemonic: str, whole: bool) -> None:
    assert {one.what.whole for form in forms(mnemonic) for one in form.converges} == {whole}


def test_the_flags_of_converges() -> None:
    (form,) = parse_entries("a d\n  d: r .u32\n  converges warp aligned whole\n")

    assert (form.converges[0].what.aligned, form.converges[0].what.whole) == (True, True)
    with pytest.raises(NotationError):
        list(parse_entries("a d\n  d: r .u32\n  converges warp whole aligned\n"))
