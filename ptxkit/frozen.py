"""`attrs.frozen` and `attrs.define` for classes created at program start: `attrs` generates their methods when they are first used.

For every class, `attrs` generates and compiles methods, which takes longer than reading the module that contains it. A command constructs
objects of fewer than half of the classes that it imports, and compares objects of a few.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
else:

    def frozen(cls: type[Any] | None = None, *, eq: bool = True) -> Any:
        """A class as from `attrs.frozen`, with slots. It may not use `super()` without arguments or `functools.cached_property`."""
        return _slotted(attrs.frozen, eq, cls) if cls is not None else lambda one: _slotted(attrs.frozen, eq, one)

    def define(cls: type[Any] | None = None, *, eq: bool = True) -> Any:
        """A class as from `attrs.define`, under the same conditions."""
        return _slotted(attrs.define, eq, cls) if cls is not None else lambda one: _slotted(attrs.define, eq, one)


_CONSTRUCTION = ("__attrs_attrs__", "__init__", "__match_args__", "__getstate__", "__setstate__", "__setattr__", "__delattr__")
_COMPARISON = ("__eq__", "__ne__", "__hash__", "__repr__")
_FIRST_READ = ("__attrs_attrs__", "__init__", "__setstate__")
"""One of these is read before there is an object."""
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""What a class contains for a slot, and for references to its objects."""


class _Pending:
    """Stands for an attribute of a class until it is first read: then `generate` replaces it."""

    def __init__(self, name: str, generate: Callable[[], type[Any]]) -> None:
        self.name = name
        self.generate = generate

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        found: Any = self.generate().__dict__[self.name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _slotted(make: Callable[..., type[Any]], eq: bool, cls: type[Any]) -> type[Any]:
    """The class with slots for its fields, and with the methods that `make` generates, once they are needed."""

    def generate(names: tuple[str, ...], **options: bool) -> type[Any]:
        generated = make(cls, **options).__dict__
        for name in names:
            if name in generated and name not in own:
                setattr(made, name, generated[name])
        return made

    def construction() -> type[Any]:
        return generate(_CONSTRUCTION, eq=False, repr=False)

    def comparison() -> type[Any]:
        return generate(_COMPARISON, eq=eq)

    own = dict(cls.__dict__)
    fields = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
    inherited = {name for base in cls.__mro__[1:] for name, value in base.__dict__.items() if isinstance(value, _SLOTS)}
    body = {name: value for name, value in own.items() if name not in fields and name not in ("__dict__", "__weakref__")}
    body["__slots__"] = tuple([name for name in (*fields, "__weakref__") if name not in inherited])
    body.update([(name, _Pending(name, construction)) for name in _FIRST_READ if name not in own])
    body.update([(name, _Pending(name, comparison)) for name in (_COMPARISON if eq else ("__repr__",)) if name not in own])
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, body)
    return made
