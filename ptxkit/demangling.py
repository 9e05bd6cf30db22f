"""Demangled names as in the source: `my::apply<float, 64>` for `_ZN2my5applyIfLi64EEEvPT_i` (Itanium C++ ABI and Rust).

The demangler is the library `demangle`. It is imported with the first mangled name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ptxkit.memo import expression

LONGEST = 60
"""Maximum length of a name in a message; for longer names, template arguments are omitted."""

LONGEST_TYPE = 32
"""Maximum length of a parameter type in a message; longer ones are omitted."""

_MANGLED = expression(r"(?:_Z|_R)[\w$.]*\w")
_WORD = expression(r"(?<![\w$.%])((?:_Z|_R)[\w$]+?)(?:_param_(\d+))?(?![\w$])")
_QUOTED_PARAMETER = expression(r"(parameter )?`([A-Za-z_$][\w$]*)_param_(\d+)`")
_BARE_PARAMETER = expression(r"(?<![\w$.%])([A-Za-z_$][\w$]*)_param_(\d+)(?![\w$])")
_TAG = expression(r"\[abi:\w+\]")
_INTERNAL = expression(r"_INTERNAL_\w+::")
_LENGTH = expression(r"\d+")


@functools.lru_cache(maxsize=4096)
def readable(name: str) -> str:
    """The qualified source name with template arguments, without parameters and result; a name that is not mangled is unchanged."""
    if _MANGLED.fullmatch(name) is None:
        return name
    tree = _tree(name)
    if tree is None:
        return _identifiers(name)
    found = str(getattr(tree, "name", tree) if type(tree).__name__ == "Function" else tree)
    if type(tree).__name__ == "Qualified":
        # a static variable of a function: the function without its parameters
        found = "::".join([str(getattr(part, "name", part)) for part in getattr(tree, "parts", ())])
    return _INTERNAL.sub("", _TAG.sub("", found)) or name


@functools.lru_cache(maxsize=4096)
def signature(name: str) -> tuple[str, ...]:
    """The parameter types of a function, as far as its mangled name contains them: `float*`, `int`."""
    tree = _tree(name) if _MANGLED.fullmatch(name) is not None else None
    return tuple([_TAG.sub("", str(one)) for one in getattr(tree, "parameters", None) or ()])


def _tree(name: str) -> Any:
    """The parsed mangled name; None if it cannot be parsed."""
    import demangle

    try:
        return demangle.parse(name, language=("itanium", "rust"))
    except demangle.DemanglingError:
        return None


def short(name: str) -> str:
    """The readable name, without template arguments if it is long."""
    found = readable(name)
    return found if len(found) <= LONGEST else _last(_without_arguments(found, "<…>"))


def variable(name: str) -> str:
    """The readable name of a variable, without the function or namespace that contains it."""
    return _last(readable(name)) if _MANGLED.fullmatch(name) else name


def base(name: str) -> str:
    """The name without namespaces and template arguments: `apply` for `my::apply<float, 64>`."""
    return _last(_without_arguments(readable(name)))


def parameter(function: str, number: int, names: Mapping[str, Sequence[str]]) -> str | None:
    """The name of a parameter, if debug information has it; `number` counts from 0."""
    known = names.get(function, ())
    return known[number] if number < len(known) and known[number] else None


def described(function: str, number: int, names: Mapping[str, Sequence[str]], within: str | None = None) -> str:
    """A parameter by its name, or by its number from 0 and its type if the name is unknown: `parameter 2 (int)`.

    The function is not named if it is `within`.
    """
    known = parameter(function, number, names)
    if known is not None:
        return known
    types = signature(function)
    kind = f" ({types[number]})" if number < len(types) and len(types[number]) <= LONGEST_TYPE else ""
    return f"parameter {number}{kind}" + ("" if function == within else f" of {short(function)}")


def in_prose(text: str, functions: Iterable[str] = (), names: Mapping[str, Sequence[str]] | None = None, within: str | None = None) -> str:
    """The text with mangled names made readable. Parameters of `functions` are `described`; the text is about `within`."""
    if "_Z" not in text and "_param_" not in text and "_R" not in text:
        return text
    owners, known = frozenset(functions), names or {}

    def quoted(match: re.Match[str]) -> str:
        owner, number = match[2], int(match[3])
        if owner not in owners and not owner.startswith(("_Z", "_R")):
            return match[0]
        found = parameter(owner, number, known)
        return f"{match[1] or ''}`{found}`" if found else described(owner, number, known, within)

    def bare(match: re.Match[str]) -> str:
        owner, number = match[1], int(match[2])
        if owner not in owners and not owner.startswith(("_Z", "_R")):
            return match[0]
        if match.string[match.end() : match.end() + 1] == "[":
            # an array that it points to: named as in options
            return parameter(owner, number, known) or f"param_{number}"
        return described(owner, number, known, within)

    text = _BARE_PARAMETER.sub(bare, _QUOTED_PARAMETER.sub(quoted, text))
    return _WORD.sub(lambda match: short(match[1]) if match[1] in owners else variable(match[1]), text)


def matching(wanted: str, names: Iterable[str]) -> list[str]:
    """The names that a user may mean: the exact name, otherwise those with that source name, otherwise those that contain it."""
    every = list(dict.fromkeys(names))
    tests: tuple[Callable[[str], bool], ...] = (
        lambda name: name == wanted,
        lambda name: readable(name) == wanted,
        lambda name: _without_arguments(readable(name)) == wanted,
        lambda name: base(name) == wanted,
        lambda name: wanted in name or wanted in readable(name),
    )
    for test in tests:
        found = [name for name in every if test(name)]
        if found:
            return found
    return []


def _without_arguments(name: str, mark: str = "") -> str:
    """`apply` for `apply<float, 64>`, with a mark for what is omitted."""
    found: list[str] = []
    depth = 0
    for i, character in enumerate(name):
        if character == "<" and not name.endswith("operator", 0, i):
            depth += 1
            if depth == 1:
                found.append(mark)
        elif character == ">" and depth and name[i - 1] != "-":
            depth -= 1
        elif not depth:
            found.append(character)
    return "".join(found)


def _last(name: str) -> str:
    """The name after the last `::` outside template arguments."""
    depth, start = 0, 0
    for i, character in enumerate(name):
        depth += (character in "<(") - (character in ">)")
        if depth == 0 and name.startswith("::", i):
            start = i + 2
    return name[start:]


def _identifiers(name: str) -> str:
    """The identifiers of a mangled name that the library cannot parse: `kernel::tile` for `_ZZ6kernelE4tile`."""
    found: list[str] = []
    i = 2
    while i < len(name):
        match = _LENGTH.match(name, i)
        if match is None:
            i += 1
            if found and name[i - 1] not in "EKLN":
                break
            continue
        end = match.end() + int(match[0][:6])
        if end > len(name):
            break
        found.append(name[match.end() : end])
        i = end
    return "::".join([one for one in found if not one.startswith("_INTERNAL_")]) or name
