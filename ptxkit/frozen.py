"""`attrs.frozen` for classes created at program start, at half the cost.

For every class, `attrs` generates and compiles the methods that compare, hash and print its objects, which takes longer than the
constructor. Here they are closures, or shared functions. Classes that are compared in inner loops should use `attrs` itself.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import frozen as frozen
else:

    def frozen(cls: type[Any] | None = None, *, eq: bool = True) -> Any:
        """A class as from `attrs.frozen`, with or without comparison of its fields. The `hash` option of fields is ignored."""
        if cls is None:
            return lambda one: frozen(one, eq=eq)
        own = cls.__dict__
        made = attrs.frozen(cls, eq=False, repr=False)
        if "__repr__" not in own:
            made.__repr__ = _shown
        if eq:
            key = attrgetter(*[field.name for field in attrs.fields(made) if field.eq])
            made.__eq__ = _comparison(key)
            made.__hash__ = _hash(key)
        return made


def _comparison(key: Callable[[object], object]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(key: Callable[[object], object]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(key(self))

    return __hash__


@reprlib.recursive_repr("...")
def _shown(self: Any) -> str:
    shown = ", ".join([f"{field.name}={getattr(self, field.name)!r}" for field in attrs.fields(type(self)) if field.repr])
    return f"{type(self).__qualname__.rpartition('>.')[2]}({shown})"
