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
_FIELD: Any = type(attrs.field())
_SPECIAL = ("converter", "eq_key", "hash", "on_setattr", "_validator")
"""What the methods written here do not provide for."""


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
        is_plain = not (kw_only or _is_derived(cls) or any(map(_is_special, fields.values())))
        if name == "__init__" and is_plain:
            made.__init__ = _constructor(made, fields)
        elif name in ("__eq__", "__hash__") and is_plain and make is attrs.frozen:
            setattr(made, name, _comparison(made, name, [name for name, field in fields.items() if type(field) is not _FIELD or field.eq]))
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


def _is_derived(cls: type[Any]) -> bool:
    """Whether a class has fields besides its own, or has more to do when an object is made."""
    return any(hasattr(base, "__attrs_attrs__") for base in cls.__bases__) or hasattr(cls, "__attrs_post_init__")


def _is_special(field: Any) -> bool:
    """Whether a field, given what the class says about it, needs `attrs` itself."""
    if type(field) is not _FIELD:
        return False
    made_by_object = isinstance(field._default, attrs.Factory) and field._default.takes_self  # type: ignore[arg-type]
    is_unset = not field.init and not isinstance(field._default, attrs.Factory)  # type: ignore[arg-type]
    return made_by_object or is_unset or bool(field.kw_only) or any(getattr(field, name) is not None for name in _SPECIAL)


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
    """The constructor of a plain class. Its code is that of all constructors with such fields, under its own names."""
    scope: dict[str, Any] = {"__name__": made.__module__, "NOTHING": attrs.NOTHING}
    layout, names, defaults = "", [], []
    for i, (name, field) in enumerate(fields.items()):
        default = field._default if type(field) is _FIELD else field
        is_made = isinstance(default, attrs.Factory)  # type: ignore[arg-type]
        scope[f"set{i}"] = made.__dict__[name].__set__
        if is_made:
            scope[f"make{i}"] = default.factory
        if type(field) is _FIELD and not field.init:
            layout += _OWN
            continue
        layout += _MADE if is_made else _GIVEN
        names.append(name)
        if default is not attrs.NOTHING:
            defaults.append(attrs.NOTHING if is_made else default)
    arguments = [name.lstrip("_") for name in names]
    found = types.FunctionType(_code(layout).replace(co_varnames=("self", *arguments)), scope, "__init__", tuple(defaults))
    found.__annotations__ = {**dict(zip(arguments, [made.__annotations__[name] for name in names], strict=True)), "return": None}
    found.__qualname__ = f"{made.__qualname__}.__init__"
    return found


_GIVEN, _MADE, _OWN = "gmo"
"""A field that is set to an argument; to one or, without it, to a new object; always to a new object."""


@functools.cache
def _code(layout: str) -> types.CodeType:
    """The code of a constructor with such fields, which calls `set0`, `set1`, ... with the object and the values."""
    value = {_GIVEN: "value{0}", _MADE: "make{0}() if value{0} is NOTHING else value{0}", _OWN: "make{0}()"}
    parameters = ["self", *[f"value{i}" for i, kind in enumerate(layout) if kind != _OWN]]
    body = "".join([f"    set{i}(self, {value[kind].format(i)})\n" for i, kind in enumerate(layout)])
    return _compiled("__init__", f"def __init__({', '.join(parameters)}):\n{body}    return")


_COMPARED = {
    "__eq__": (
        "def __eq__(self, other):\n    if other.__class__ is not self.__class__:\n        return NotImplemented\n    return {}",
        "self.field{0} == other.field{0}",
        " and ",
    ),
    "__hash__": ("def __hash__(self):\n    return hash(({},))", "self.field{0}", ", "),
}


def _comparison(made: type[Any], name: str, fields: Sequence[str]) -> Callable[..., Any]:
    """`__eq__` or `__hash__` by these fields. Its code is that of all with as many, under its own names."""
    own = {f"field{i}": field for i, field in enumerate(fields)}
    code = _compared(name, len(fields))
    code = code.replace(co_names=tuple([own.get(used, used) for used in code.co_names]))
    found = types.FunctionType(code, {"__name__": made.__module__}, name)
    found.__qualname__ = f"{made.__qualname__}.{name}"
    return found


@functools.cache
def _compared(name: str, count: int) -> types.CodeType:
    frame, one, between = _COMPARED[name]
    parts = [one.format(i) for i in range(count)] or ["True"]
    return _compiled(name, frame.format(between.join(parts)))


def _compiled(name: str, text: str) -> types.CodeType:
    scope: dict[str, Any] = {}
    exec(text, scope)
    code: types.CodeType = scope[name].__code__
    return code
