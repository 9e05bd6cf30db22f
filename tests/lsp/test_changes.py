"""What changed in a text."""

from __future__ import annotations

import random

import pytest

from ptxkit.lsp.changes import NONE, Change, changed

OLD = "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(
    ("new", "change"),
    [
        ("one\ntwo\nthrees\nfour\n", Change(8, 13, 14)),
        ("one\nthree\nfour\n", Change(4, 13, 9)),
        ("one\ntwo\nthree\nfour\nfive", Change(19, 19, 23)),
        ("", Change(0, 19, 0)),
        ("none", Change(0, 19, 4)),
    ],
)
def test_the_lines_that_changed(new: str, change: Change) -> None:
    assert changed(OLD, new) == change


def test_what_stayed_is_found_again() -> None:
    lot = random.Random(0)
    for _ in range(300):
        start, end = sorted(lot.choices(range(len(OLD) + 1), k=2))
        new = OLD[:start] + "".join(lot.choices("a\nt", k=lot.randrange(4))) + OLD[end:]
        change = changed(OLD, new)
        for at in range(len(new)):
            before = change.before(at)
            if before is not None:
                assert OLD[before : before + 1] == new[at] and change.after(before) == at
            else:
                assert change.start <= at < change.new_end


def test_nothing_changed() -> None:
    assert [(NONE.before(at), NONE.after(at)) for at in (0, 5)] == [(0, 0), (5, 5)]
