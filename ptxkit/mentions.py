"""The names that instructions mention, found without visiting each occurrence.

Those of a whole scope are looked up together. Which names a node mentions follows from the node alone, which keeps them; the instructions
of a process share nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.operands import is_predefined
from ptxkit.scopes import Scope, Symbol
from ptxkit.syntax import Apply, Name, without_numbers


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
    by_text = list(zip(without_numbers(" ".join(others)).split(" "), others, strict=True)) if others else []
    meanings: dict[str, set[Symbol | str]] = {}
    for text, name in by_text:
        meanings.setdefault(text, set()).add(others[name] or name)
    for family in families:
        meanings.setdefault(without_numbers(f"{family.name}0"), set()).add(family)
    apart = {text: several for text, several in meanings.items() if len(several) > 1}
    names_apart = frozenset([name for text, name in by_text if text in apart])
    return Mentioned(list(symbols), missing, apart, names_apart)


def names_in_order(nodes: Sequence[Any]) -> dict[str, None]:
    """The names that these guards, opcodes and operands mention, without repetitions."""
    try:
        return dict.fromkeys(chain.from_iterable([node.mentions for node in nodes]))
    except AttributeError:
        for node in nodes:
            _enter(node)
        return dict.fromkeys(chain.from_iterable([node.mentions for node in nodes]))


def _enter(node: Any) -> None:
    """Sets the names of a node and of its parts."""
    if hasattr(node, "mentions"):
        return
    names: tuple[str, ...] = (node.text,) if type(node) is Name else ()
    for part in node.children:
        _enter(part)
    # the function of `Apply` is not an operand
    parts: Sequence[Any] = node.children[1:] if type(node) is Apply else node.children
    for part in parts:
        names += part.mentions
    object.__setattr__(node, "mentions", names)
