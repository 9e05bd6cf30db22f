"""`attrs.frozen` and `attrs.define` for classes created at program start: `attrs` generates their methods when they are first used.

For every class, `attrs` generates and compiles methods, which takes longer than reading the module that contains it. A command constructs
objects of fewer than half of the classes that it imports, and compares objects of a few.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
else:

    def frozen(cls: type[Any] | None = None, **options: bool) -> Any:
        """A class as from `attrs.frozen`, with slots. It may not use `super()` without arguments or `functools.cached_property`.

        The options are `eq` and `kw_only`.
        """
        return _slotted(attrs.frozen, cls, **options) if cls is not None else lambda one: _slotted(attrs.frozen, one, **options)

    def define(cls: type[Any] | None = None, **options: bool) -> Any:
        """A class as from `attrs.define`, under the same conditions."""
        return _slotted(attrs.define, cls, **options) if cls is not None else lambda one: _slotted(attrs.define, one, **options)


_CONSTRUCTION = ("__init__", "__attrs_attrs__", "__match_args__", "__getstate__", "__setstate__")
_COMPARISON = ("__eq__", "__ne__", "__hash__", "__repr__")
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
"""What a class contains for a slot, and for references to its objects."""
_FIELD = type(attrs.field())


@attrs.frozen
class _Frozen:
    """Has the methods that refuse assignments."""


class _Pending:
    """Stands for an attribute of a class until it is first read: then `generate` replaces it."""

    def __init__(self, name: str, generate: Callable[[], type[Any]]) -> None:
        self.name = name
        self.generate = generate

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        found: Any = self.generate().__dict__[self.name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _slotted(make: Callable[..., type[Any]], cls: type[Any], *, eq: bool = True, kw_only: bool = False) -> type[Any]:
    """The class with slots for its fields, and with the methods that `make` generates, once they are needed."""

    def generate(names: tuple[str, ...], **options: bool) -> type[Any]:
        generated = make(cls, kw_only=kw_only, **options).__dict__
        for name in names:
            if name in generated and name not in own:
                setattr(made, name, generated[name])
        return made

    def construction() -> type[Any]:
        return generate(_CONSTRUCTION, eq=False, repr=False)

    def constructor() -> type[Any]:
        if kw_only or not _is_plain(make, cls, fields):
            return construction()
        made.__init__ = _constructor(made, fields, own)
        return made

    def comparison() -> type[Any]:
        return generate(_COMPARISON, eq=eq)

    own = dict(cls.__dict__)
    fields = [name for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)]
    inherited = {name for base in cls.__mro__[1:] for name, value in base.__dict__.items() if isinstance(value, _SLOTS)}
    body = {name: value for name, value in own.items() if name not in fields and name not in ("__dict__", "__weakref__")}
    body["__slots__"] = tuple([name for name in (*fields, "__weakref__") if name not in inherited])
    if make is attrs.frozen:
        body.update(__setattr__=_Frozen.__setattr__, __delattr__=_Frozen.__delattr__)
    pending = {
        **dict.fromkeys(_CONSTRUCTION, construction),
        **dict.fromkeys(_COMPARISON if eq else ("__repr__",), comparison),
        "__init__": constructor,
    }
    body.update([(name, _Pending(name, generate)) for name, generate in pending.items() if name not in own])
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, body)
    return made


def _is_plain(make: Callable[..., type[Any]], cls: type[Any], fields: Sequence[str]) -> bool:
    """Whether the objects of a class are frozen, and all that its constructor does is to set the fields to its arguments."""
    is_derived = any(hasattr(base, "__attrs_attrs__") for base in cls.__bases__) or hasattr(cls, "__attrs_post_init__")
    return make is attrs.frozen and not is_derived and not any(isinstance(cls.__dict__.get(name), _FIELD) for name in fields)


def _constructor(made: type[Any], fields: Sequence[str], defaults: Mapping[str, Any]) -> Callable[..., None]:
    """The constructor of a plain class. Its code is that of all constructors with as many fields, under its own names."""
    names = [name.lstrip("_") for name in fields]
    scope = {"__name__": made.__module__, **{f"set{i}": made.__dict__[name].__set__ for i, name in enumerate(fields)}}
    code = _code(len(fields)).replace(co_varnames=("self", *names))
    found = types.FunctionType(code, scope, "__init__", tuple([defaults[name] for name in fields if name in defaults]))
    found.__annotations__ = {**dict(zip(names, [made.__annotations__[name] for name in fields], strict=True)), "return": None}
    found.__qualname__ = f"{made.__qualname__}.__init__"
    return found


@functools.cache
def _code(count: int) -> types.CodeType:
    """The code of a constructor with so many fields, which calls `set0`, `set1`, ... with the object and the values."""
    values = [f"value{i}" for i in range(count)]
    body = "".join([f"    set{i}(self, {value})\n" for i, value in enumerate(values)])
    scope: dict[str, Any] = {}
    exec(f"def __init__({', '.join(['self', *values])}):\n{body}    return", scope)
    code: types.CodeType = scope["__init__"].__code__
    return code
