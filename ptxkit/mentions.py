"""The names that instructions mention, found without visiting each occurrence.

Which names a node mentions follows from the node alone, which keeps them; the instructions of a process share nodes. A name that ends in a
number, as most registers and labels do, is kept as an integer, so that a family of registers is compared with all of its members at once.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import chain, count
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.operands import is_predefined
from ptxkit.scopes import DIGITS, Scope, Symbol
from ptxkit.syntax import Apply, Name

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
    apart: dict[int, list[str]]
    """For the number of a stem, the names with this stem, unless one family declares all of them."""


def mentioned(scope: Scope, nodes: Sequence[Any]) -> Mentioned:
    """What the names in these guards, opcodes and operands mean in a scope."""
    names = mentions_of(nodes)
    texts = {name: None for name in names if type(name) is str}
    numbered = sorted([name for name in names if type(name) is int])
    symbols: list[Symbol] = []
    apart: dict[int, list[str]] = {}
    at = 0
    while at < len(numbered):
        stem = numbered[at] >> BITS
        end = bisect.bisect_left(numbered, (stem + 1) << BITS, at)
        name, first = stems[stem], stem << BITS
        family = scope.family(name, numbered[end - 1] - first)
        if family is not None:
            symbols.append(family)
        else:
            apart[stem] = [f"{name}{number - first}" for number in numbered[at:end]]
            texts.update(dict.fromkeys(apart[stem]))
        at = end
    met, unknown = scope.resolve(texts)
    return Mentioned([*symbols, *met], [name for name in unknown if not is_predefined(name)], apart)


def names_in_order(nodes: Sequence[Any]) -> list[str]:
    """The names that these nodes mention, without repetitions."""
    return [f"{stems[name >> BITS]}{name & (1 << BITS) - 1}" if isinstance(name, int) else name for name in mentions_of(nodes)]


def stem_of(name: Mention) -> int:
    """The number of the stem of a name; -1 for a text."""
    return name >> BITS if isinstance(name, int) else -1


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
