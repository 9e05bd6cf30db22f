"""`attrs.frozen` and `attrs.define` for classes created at program start: `attrs` generates their methods when they are first used.

For every class, `attrs` generates and compiles methods, which takes longer than reading the module that contains it. A command constructs
objects of fewer than half of the classes that it imports, and compares objects of a few.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import attrs

if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
else:

    def frozen(cls: type[Any] | None = None, **options: bool) -> Any:
        """A class as from `attrs.frozen`, with slots. It may not use `super()` without arguments.

        The options are `eq`, `kw_only`, `repr` and `weakref_slot`.
        """
        return _slotted(attrs.frozen, cls, **options) if cls is not None else lambda one: _slotted(attrs.frozen, one, **options)

    def define(cls: type[Any] | None = None, **options: bool) -> Any:
        """A class as from `attrs.define`, under the same conditions."""
        return _slotted(attrs.define, cls, **options) if cls is not None else lambda one: _slotted(attrs.define, one, **options)


_GENERATED = ("__init__", "__attrs_attrs__", "__match_args__", "__getstate__", "__setstate__")
_COMPARISON = ("__eq__", "__hash__", "__repr__")
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""What a class contains for a slot, and for references to its objects."""
_SPECIFIED: tuple[Any, ...] = (type(attrs.field()), attrs.Factory)
"""What stands in a class for a field of which more is said than its default."""


@attrs.frozen
class _Frozen:
    """Has the methods that refuse assignments."""


class _Pending:
    """Stands for an attribute of a class until it is first read: then `generate` replaces it."""

    def __init__(self, name: str, generate: Callable[[str], None]) -> None:
        self.name = name
        self.generate = generate

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        own = next(cls for cls in owner.__mro__ if cls.__dict__.get(self.name) is self)
        self.generate(self.name)
        found: Any = own.__dict__[self.name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _slotted(
    make: Callable[..., type[Any]],
    cls: type[Any],
    *,
    eq: bool = True,
    kw_only: bool = False,
    repr: bool = True,
    weakref_slot: bool = True,
) -> type[Any]:
    """The class with slots for its fields, and with the methods that `attrs` would generate, once they are needed."""

    def generated(names: tuple[str, ...], **options: bool) -> None:
        methods = make(cls, kw_only=kw_only, **options).__dict__
        for name in names:
            if name in methods and isinstance(made.__dict__.get(name), _Pending):
                setattr(made, name, methods[name])

    def generate(name: str) -> None:
        if name == "__init__" and not kw_only and _is_plain(cls, fields):
            made.__init__ = _constructor(made, fields)
        elif name in _GENERATED:
            generated(_GENERATED, eq=False, repr=False)
        else:
            generated(_COMPARISON, eq=eq, repr=repr)

    own = dict(cls.__dict__)
    fields = {name: own.get(name, attrs.NOTHING) for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)}
    cached = {name: value.func for name, value in own.items() if isinstance(value, functools.cached_property)}
    inherited = {name for base in cls.__mro__[1:] for name, value in base.__dict__.items() if isinstance(value, _SLOTS)}
    body = {name: value for name, value in own.items() if name not in (*fields, *cached, "__dict__", "__weakref__")}
    slots = (*fields, *cached, *["__weakref__"] * weakref_slot)
    body["__slots__"] = tuple([name for name in slots if name not in inherited])
    if make is attrs.frozen:
        body.update(__setattr__=_Frozen.__setattr__, __delattr__=_Frozen.__delattr__)
    if cached:
        body["__getattr__"] = _computed(cached)
    pending = (*_GENERATED, *["__eq__", "__hash__"] * eq, *["__repr__"] * repr)
    body.update([(name, _Pending(name, generate)) for name in pending if name not in own])
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, body)
    return made


def _is_plain(cls: type[Any], fields: Mapping[str, Any]) -> bool:
    """Whether the constructor only sets these fields to its arguments."""
    has_more = hasattr(cls, "__attrs_post_init__") or any(hasattr(base, "__attrs_attrs__") for base in cls.__bases__)
    return not has_more and not any(isinstance(default, _SPECIFIED) for default in fields.values())


def _computed(cached: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any, str], Any]:
    """What computes the properties that are kept in slots, when their slot is found to be empty."""

    def __getattr__(self: Any, name: str) -> Any:
        compute = cached.get(name)
        if compute is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = compute(self)
        object.__setattr__(self, name, found)
        return found

    return __getattr__


def _constructor(made: type[Any], fields: Mapping[str, Any]) -> Callable[..., None]:
    """The constructor of a plain class: `attrs` needs four times as long, as it also describes every field and makes the class anew."""
    arguments = {name: name.lstrip("_") for name in fields}
    body = "".join([f"\n    set_{name}(self, {argument})" for name, argument in arguments.items()])
    scope = {f"set_{name}": made.__dict__[name].__set__ for name in fields}
    exec(f"def __init__({', '.join(['self', *arguments.values()])}):{body or ' pass'}", scope)
    found = scope["__init__"]
    found.__defaults__ = tuple([default for default in fields.values() if default is not attrs.NOTHING])
    found.__annotations__ = {argument: made.__annotations__[name] for name, argument in arguments.items()} | {"return": None}
    found.__module__ = made.__module__
    found.__qualname__ = f"{made.__qualname__}.__init__"
    return cast(Callable[..., None], found)
