"""The quicker way to make frozen classes gives what `attrs.frozen` gives."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest

from ptxkit.frozen import frozen


@frozen
class Own:
    name: str
    place: tuple[int, ...] = ()
    note: Any = attrs.field(default="", eq=False)
    within: Any = attrs.field(default=None, repr=False, eq=False)


@attrs.frozen
class Like:
    name: str
    place: tuple[int, ...] = ()
    note: Any = attrs.field(default="", eq=False)
    within: Any = attrs.field(default=None, repr=False, eq=False)


@frozen(eq=False)
class Thing:
    name: str


def test_compared_field_by_field() -> None:
    assert Own("a", (1,)) == Own("a", (1,), "other note")
    assert Own("a", (1,)) != Own("a", (2,))
    assert Own("a").__eq__("a") is NotImplemented
    assert Own("a") != Like("a")
    assert hash(Own("a", (1,))) == hash(Own("a", (1,), "other note"))
    assert len({Own("a"), Own("a"), Own("b")}) == 2


def test_by_identity_if_so_wished() -> None:
    one = Thing("a")

    assert one == one
    assert one != Thing("a")
    assert len({one, Thing("a")}) == 2


def test_shown_as_attrs_does() -> None:
    assert repr(Own("a", (1,), note=[2])) == repr(Like("a", (1,), note=[2])).replace("Like", "Own")
    assert repr(Thing("a")) == "Thing(name='a')"
    around: list[Any] = []
    around.append(Own("a", note=around))
    assert repr(around[0]) == "Own(name='a', place=(), note=[...])"


def test_frozen() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Own("a").name = "b"  # type: ignore[misc]


def test_goes_to_other_processes() -> None:
    found = pickle.loads(pickle.dumps(Own("a", (1,), note=3)))

    assert found == Own("a", (1,))
    assert found.note == 3
    assert attrs.evolve(found, name="b") == Own("b", (1,))
