"""The names that instructions mention, found without visiting each occurrence.

Which names a node mentions follows from the node alone, which keeps them; the instructions of a process share nodes. A name that ends in a
number, as most registers and labels do, is kept as an integer, so that a family of registers is compared with all of its members at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.operands import is_predefined
from ptxkit.scopes import DIGITS, Scope, Symbol
from ptxkit.syntax import Apply, Name, without_numbers

Mention = int | str
"""A name, or the number of its stem and the number that it ends in."""

BITS = 30
"""The number in a name is below 1 << BITS; the bits above it tell the stem."""
_MOST_DIGITS = 9
_MOST_STEMS = 1 << 16
"""Maximum number of stems that a process distinguishes. Names with other stems are kept as texts."""

_stem_numbers: dict[str, int] = {}
stems: dict[int, str] = {}
"""By number."""
_next_stem = count()


@frozen
class Mentioned:
    """What the names in the instructions of a scope mean."""

    symbols: list[Symbol]
    """The declared ones, in order."""
    missing: list[str]
    """The names that are neither declared nor predefined."""
    apart: dict[str, set[Symbol | str]]
    """What names that differ only in numbers mean, unless it is the same: symbols, and names that are not declared. By the name with zeros
    for its numbers."""
    names_apart: frozenset[str]
    """These names, without the members of families."""


def mentioned(scope: Scope, names: set[str]) -> Mentioned:
    """What these names mean in a scope. Numbers among them are left out."""
    families, others = scope.meanings(names)
    symbols = dict.fromkeys([*families, *[symbol for symbol in others.values() if symbol is not None]])
    missing = [name for name, symbol in others.items() if symbol is None and not is_predefined(name)]
    names_alike = list(zip(without_numbers(" ".join(others)).split(" "), others, strict=True)) if others else []
    meanings: dict[str, set[Symbol | str]] = {}
    for text, name in names_alike:
        meanings.setdefault(text, set()).add(others[name] or name)
    for family in families:
        meanings.setdefault(without_numbers(f"{family.name}0"), set()).add(family)
    apart = {text: several for text, several in meanings.items() if len(several) > 1}
    names_apart = frozenset([name for text, name in names_alike if text in apart])
    return Mentioned(list(symbols), missing, apart, names_apart)


def names_in_order(nodes: Sequence[Any]) -> list[str]:
    """The names that these nodes mention, without repetitions."""
    return [f"{stems[name >> BITS]}{name & (1 << BITS) - 1}" if isinstance(name, int) else name for name in mentions_of(nodes)]


def mentions_of(nodes: Sequence[Any]) -> dict[Mention, None]:
    """The names that these nodes mention, as they are kept."""
    try:
        return dict.fromkeys(chain.from_iterable([node.mentions for node in nodes]))
    except AttributeError:
        for node in nodes:
            if not hasattr(node, "mentions"):
                _enter(node)
        return dict.fromkeys(chain.from_iterable([node.mentions for node in nodes]))


def _enter(node: Any) -> None:
    """Sets the names of a node and of its parts."""
    if hasattr(node, "mentions"):
        return
    if type(node) is Name:
        names: tuple[Mention, ...] = (mention(node.text),)
    else:
        for part in node.children:
            _enter(part)
        # the function of `Apply` is not an operand
        parts: tuple[Any, ...] = node.children[1:] if type(node) is Apply else node.children
        names = tuple(chain.from_iterable([part.mentions for part in parts]))
    object.__setattr__(node, "mentions", names)


def mention(text: str) -> Mention:
    """A name as it is kept: the text if it ends in no number."""
    stem = text.rstrip(DIGITS)
    digits = text[len(stem) :].lstrip("0") or text[len(stem) :][-1:]
    stem = text[: len(text) - len(digits)]
    if not digits or len(digits) > _MOST_DIGITS:
        return text
    number = _stem_numbers.get(stem)
    if number is None:
        if len(stems) >= _MOST_STEMS:
            return text
        number = next(_next_stem)
        stems[number] = stem
        number = _stem_numbers.setdefault(stem, number)
    return number << BITS | int(digits)
