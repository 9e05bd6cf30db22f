"""The functions of a module in parts of which none has anything to do with another: what is found in one is a matter of its own text."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections.abc import Sequence

import attrs

from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.analyses.framework.rule import Facts, Rule
from ptxkit.frozen import frozen
from ptxkit.syntax import Function, Index, Node, Section

_CALLS = re.compile(r"call(?<!\wcall)\b")
"""The word: a pattern that begins with letters is searched for many times faster."""


@frozen
class Part:
    """A kernel that calls nothing, or all other functions of a module together."""

    children: tuple[int, ...]
    """Their numbers among the children of the module, ascending."""
    others: tuple[int, ...] = attrs.field(eq=False, repr=False)
    """The numbers of what is no function with a body, nor debugging information."""


def parts_of(facts: Facts) -> tuple[Part, ...]:
    """The parts of a module, in the order of its text."""
    text = facts.index.text
    others = [i for i, child in enumerate(facts.module.children) if not isinstance(child, Section) and not _has_body(child)]
    alone: list[int] = []
    together: list[int] = []
    for (i,), function in facts.functions:
        is_alone = function.header.is_entry and _CALLS.search(text, *extent(facts.index, i)) is None
        (alone if is_alone else together).append(i)
    if facts.names.duplicates:
        # which of two functions of one name is meant cannot be said
        together, alone = sorted([*together, *alone]), []
    found = [(i,) for i in alone] + ([tuple(together)] if together else [])
    return tuple([Part(one, tuple(others)) for one in sorted(found)])


def extent(index: Index, i: int) -> tuple[int, int]:
    """Where a child of the module starts, with what leads it, and ends."""
    return index.starts[i], index.starts[i + 1] if i + 1 < len(index.starts) else len(index.text)


def part_at(parts: Sequence[Part], index: Index, offset: int) -> Part | None:
    """The part whose text has an offset; None if that is of no function."""
    i = bisect_right(index.starts, offset) - 1
    return next((part for part in parts if i in part.children), None)


def keys_of(facts: Facts, parts: Sequence[Part], rules: Sequence[Rule], run: bool) -> tuple[str, ...]:
    """What findings in each part depend on, as one word: the text of its functions, all that the module declares, and what is looked for.

    Debugging information is none of it: it names things in messages when these are complete.
    """
    index = facts.index

    def text_of(i: int) -> bytes:
        start, end = extent(index, i)
        return index.text[start:end].encode("utf-8", "surrogatepass") + b"\0"

    asked = (facts.target, facts.version, run, [rule.id for rule in rules], has_errors(facts))
    common = hashlib.blake2b(repr(asked).encode(), digest_size=20)
    for i in parts[0].others if parts else ():
        common.update(text_of(i))
    keys = []
    for part in parts:
        own = common.copy()
        for i in part.children:
            own.update(text_of(i))
        keys.append(own.hexdigest())
    return tuple(keys)


def has_errors(facts: Facts) -> bool:
    """Whether the text has errors because of which nothing of it can be executed."""
    return bool(facts.names.unresolved or facts.names.duplicates or facts.syntax)


class PartFacts(Facts):
    """What is known of a module, with only some of its functions to be judged."""

    def __init__(self, facts: Facts, parts: Sequence[Part]) -> None:
        super().__init__(facts.module, facts.target, facts.version)
        self._whole = facts
        _share(facts, self)
        self.is_asked = False
        """Whether somebody has asked for the functions."""
        children = frozenset([i for part in parts for i in part.children])
        self._is_whole = children >= {i for (i,), _ in facts.functions}
        self._fresh = facts.routines if self._is_whole else routines(facts.module, children)

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions that are judged."""
        self.is_asked = True
        return self._fresh

    def forget(self) -> None:
        """Lets go of all facts of functions. What was found out about the module is known from now on."""
        if self._is_whole:
            self._whole.forget()
        else:
            for routine in self._fresh:
                routine.forget()
        _share(self, self._whole)


def _share(one: Facts, other: Facts) -> None:
    """Tells others what is known of a module and is no matter of which of its functions are judged."""
    for name in ("index", "names", "marks", "syntax", "_problems"):
        if name in one.__dict__:
            other.__dict__[name] = one.__dict__[name]


def _has_body(node: Node) -> bool:
    return isinstance(node, Function) and node.body is not None
