"""Classes whose methods are generated later behave like those of `attrs`."""

from __future__ import annotations

import functools
import inspect
import pickle
import subprocess
import sys
import weakref
from typing import Any, ClassVar

import attrs
import pytest

from ptxkit.diagnostics import Span
from ptxkit.frozen import define, frozen


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


def test_generated_when_first_used() -> None:
    @frozen
    class Unused:
        name: str

    assert type(Unused.__dict__["__init__"]).__name__ == "_Pending"
    assert [field.name for field in attrs.fields(Unused)] == ["name"]
    assert Unused.__dict__["__init__"] is type(Unused("a")).__init__
    assert type(Unused.__dict__["__eq__"]).__name__ == "_Pending"
    assert Unused("a") == Unused("a")
    assert type(Unused.__dict__["__eq__"]).__name__ == "function"


def test_signature_of_a_class_that_was_not_used() -> None:
    @define
    class Unused:
        name: str
        count: int = 3

    assert str(inspect.signature(Unused)) == "(name: 'str', count: 'int' = 3) -> None"


def test_property_computed_once() -> None:
    computed = []

    @frozen(eq=False)
    class Square:
        side: int

        @functools.cached_property
        def area(self) -> int:
            """The area."""
            computed.append(self.side)
            return self.side**2

    square = Square(3)

    assert (square.area, square.area, computed) == (9, 9, [3])
    assert not hasattr(square, "__dict__")
    assert attrs.evolve(square, side=4).area == 16
    with pytest.raises(AttributeError, match="'Square' object has no attribute 'volume'"):
        square.volume  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        square.area = 1


def test_fields_that_are_made_for_each_object() -> None:
    @frozen
    class Basket:
        owner: str
        things: list[str] = attrs.Factory(list)
        size: int = 1
        _known: dict[str, int] = attrs.field(factory=dict, init=False, eq=False)

    one, other, third = Basket("a"), Basket("a", size=2), Basket("a", ["x"])
    one.things.append("y")
    one._known["z"] = 1

    assert (other.things, other.size, other._known, third.things) == ([], 2, {}, ["x"])
    assert str(inspect.signature(Basket)).startswith("(owner: 'str', things: 'list[str]' = ")
    assert one == Basket("a", ["y"])
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'owner'"):
        Basket()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Basket("a", known={})  # type: ignore[call-arg]


def test_what_only_attrs_does() -> None:
    @frozen
    class Checked:
        number: int = attrs.field(converter=int)
        twice: int = attrs.field(init=False)
        text: str = attrs.field(default="a", eq=str.lower)

        @twice.default
        def _twice(self) -> int:
            return 2 * self.number

    assert Checked("3").twice == 6
    assert Checked(3, "A") == Checked(3, "a")


def test_inherited() -> None:
    @frozen
    class Base:
        name: str
        count: int = 1

        @property
        def twice(self) -> int:
            return 2 * self.count

    @frozen
    class Derived(Base):
        count: int = 2
        more: tuple[int, ...] = ()

    class Plain(Derived):
        pass

    assert Derived.__slots__ == ("more",)
    assert (Derived("a").twice, Plain("a", 4).twice, Base("a").twice) == (4, 8, 2)
    assert Derived("a", more=(1,)) == Derived("a", more=(1,))
    assert Derived("a") != Base("a")
    assert repr(Plain("a")) == "Plain(name='a', count=2, more=())".replace("Plain", Plain.__qualname__.rpartition(".")[2])
    match Derived("a", 5):
        case Base(name, count):
            assert (name, count) == ("a", 5)
    assert weakref.ref(Derived("a")) is not None


def test_defined() -> None:
    @define
    class Counter:
        shared: ClassVar[int] = 7
        count: int = 0
        seen: list[int] = attrs.field(factory=list)

    one = Counter()
    one.count += 1
    one.seen.append(3)

    assert one == Counter(1, [3])
    assert Counter().seen == []
    assert Counter.shared == 7
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with pytest.raises(AttributeError):
        one.other = 1  # type: ignore[attr-defined]


def test_read_by_a_process_that_made_no_object() -> None:
    program = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()))"
    sent = Span(1, 2, 3, 4, 5, 6)
    done = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(sent), capture_output=True, check=True)

    assert done.stdout.decode().strip() == repr(sent)
