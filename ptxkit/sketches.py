"""Instructions that differ only in the numbers of registers and in constants, so that a rule examines one of them instead of all.

The *pattern* of an operand is its text without the numbers that names end in (`%r12`) and without the values of constants, unless its shape
could depend on them. It follows from the node alone, which keeps it; the instructions of a process share nodes.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Sequence
from itertools import chain, count
from typing import Any

from ptxkit.operands import Keys, Shaper, number_shape
from ptxkit.scopes import DIGITS, Scope
from ptxkit.syntax import Address, Apply, Guard, Instruction, Leaf, Name, Node, Number, Opcode, Pair, Vector

BEGIN = "\0"
"""Begins the pattern of an instruction."""
_GUARDED = "\1"
"""Ends the pattern of a guard."""

_TRANSPARENT = frozenset((Address, Pair, Vector))
"""The operands whose shapes follow from those of their parts."""

_BITS = 30
"""The number in a name is below 1 << _BITS; the bits above it are the number of its stem."""
_MOST_DIGITS = 9
_MOST_STEMS = 1 << 16
"""The number of stems that a process distinguishes; names with other stems are their own patterns."""

_stem_numbers: dict[str, int] = {}
_stems: dict[int, str] = {}
_next_stem = count()


class Examples:
    """One instruction for each pattern of a scope, and the keys of their opcodes and operand shapes."""

    def __init__(self, scope: Scope, keys: Keys, patterns: list[str], instructions: Sequence[Instruction], numbered: set[int]) -> None:
        self.scope = scope
        self.shaper = Shaper(scope, keys)
        """Knows the operands of the examples, apart from the numbers of registers."""
        self.of = dict(zip(patterns, instructions, strict=True))
        """By pattern."""
        self.limits: dict[int, int] = {}
        """For each stem of names that a declaration with a count declares, the first number beyond these."""
        self.singles: set[int] = set()
        """The other names that end in a number."""
        mixed = self._resolve(sorted(numbered))
        parts = {node.pattern: node for example in self.of.values() for node in _nodes(example)}
        self.shaper.learn(parts.values())
        known = {pattern: self.shaper.known[id(node)] for pattern, node in parts.items()}
        self.keys = {pattern: "".join([known[node.pattern] for node in _nodes(example)]) for pattern, example in self.of.items()}
        """By pattern."""
        self.mixed = frozenset([pattern for pattern, example in self.of.items() if _has_stem(example, mixed)] if mixed else ())
        """Patterns whose instructions differ in shape, since names with the same stem are declared differently."""

    def _resolve(self, numbered: list[int]) -> set[int]:
        """Resolves the names that end in a number, and gives the stems whose names differ in shape."""
        mixed = set()
        at = 0
        while at < len(numbered):
            stem = numbered[at] >> _BITS
            end = bisect.bisect_left(numbered, (stem + 1) << _BITS, at)
            name, first = _stems[stem], stem << _BITS
            family = self.scope.family(name, numbered[end - 1] - first)
            if family is not None:
                self.shaper.symbol_key(family)
                self.limits[stem] = first + (family.count or 0)
            else:
                self.singles.update(numbered[at:end])
                if len({self.shaper.name_key(f"{name}{number - first}") for number in numbered[at:end]}) > 1:
                    mixed.add(stem)
            at = end
        return mixed

    @property
    def is_template(self) -> bool:
        """Whether the same keys hold for another scope with the same patterns, declarations and parent, if `fit` holds for its names."""
        return not (self.mixed or self.scope.ranges or self.shaper.missing)

    def fit(self, numbered: set[int]) -> bool:
        """Whether names that end in a number are these ones, apart from those that are declared with a count."""
        limit = self.limits.get
        return {name for name in numbered if name >= limit(name >> _BITS, 0)} == self.singles


class Sketch:
    """The instructions of one scope by pattern."""

    def __init__(
        self, scope: Scope, instructions: Sequence[Instruction], keys: Keys, declared: Hashable, templates: dict[Hashable, Examples]
    ) -> None:
        self.instructions = instructions
        text, numbered = _drafted(list(chain.from_iterable([instruction.children for instruction in instructions])))
        self._text = text
        self._exact: dict[int, str] = {}
        """The keys of the instructions of mixed patterns, by their positions."""
        template = templates.get((declared, text))
        if template is not None and template.fit(numbered):
            self.examples = template
            return
        patterns = self.patterns
        self.examples = Examples(scope, keys, patterns, instructions, numbered)
        if self.examples.is_template:
            templates[declared, text] = self.examples
        elif self.examples.mixed:
            shaper = self.examples.shaper
            exact = [i for i, pattern in enumerate(patterns) if pattern in self.examples.mixed]
            nodes = {id(node): node for i in exact for node in instructions[i].children}
            shaper.learn([node for at, node in nodes.items() if at not in shaper.known])
            self._exact.update([(i, shaper.key(instructions[i])) for i in exact])

    @property
    def patterns(self) -> list[str]:
        """The pattern of each instruction."""
        return self._text.split(BEGIN)[1:]

    @property
    def keys(self) -> list[str]:
        """The key of each instruction: equal for those with equal opcodes and operand shapes."""
        keys = list(map(self.examples.keys.__getitem__, self.patterns))
        for i, key in self._exact.items():
            keys[i] = key
        return keys

    @property
    def by_key(self) -> dict[str, Instruction]:
        """An instruction of each key."""
        found = {key: self.examples.of[pattern] for pattern, key in self.examples.keys.items()}
        found.update([(key, self.instructions[i]) for i, key in self._exact.items()])
        return found

    def key(self, instruction: Instruction, pattern: str | None = None) -> str:
        """The key of one of the instructions, whose pattern may be given."""
        if pattern is None:
            pattern = _drafted(instruction.children)[0].removeprefix(BEGIN)
        return self.examples.shaper.key(instruction) if pattern in self.examples.mixed else self.examples.keys[pattern]

    def with_keys(self, wanted: frozenset[str]) -> frozenset[str]:
        """The patterns whose instructions may have one of these keys."""
        examples = self.examples
        found = frozenset([pattern for pattern, key in examples.keys.items() if key in wanted])
        return found if wanted.isdisjoint(self._exact.values()) else found | examples.mixed


def _drafted(nodes: Sequence[Any]) -> tuple[str, set[int]]:
    """The patterns of nodes as one text, and the names in them that end in a number."""
    try:
        text = "".join([node.pattern for node in nodes])
    except AttributeError:
        for node in nodes:
            _enter(node)
        text = "".join([node.pattern for node in nodes])
    numbered = {node.numbered for node in nodes}
    several = [names for names in numbered if type(names) is tuple]
    return text.replace(_GUARDED + BEGIN, _GUARDED), numbered.difference(several).union(*several)


def _has_stem(instruction: Instruction, stems: set[int]) -> bool:
    return any(name >> _BITS in stems for name in _drafted(instruction.children)[1])


def _nodes(instruction: Instruction) -> tuple[Any, ...]:
    """Guard, opcode and operands, with their patterns."""
    return instruction.children


def _enter(node: Any) -> None:
    """Sets the pattern of a node and of its parts."""
    if hasattr(node, "pattern"):
        return
    for part in node.children:
        _enter(part)
    numbered: int | tuple[int, ...]
    if type(node) is Name:
        pattern, numbered = _of_name(node.text)
    else:
        # the function of `Apply` is no operand
        pattern, numbered = _of_other(node), _joined(node.children[1:] if type(node) is Apply else node.children)
    object.__setattr__(node, "numbered", numbered)
    # last, since another thread that reads the same tree may look for it
    object.__setattr__(node, "pattern", pattern)


def _joined(parts: Sequence[Any]) -> int | tuple[int, ...]:
    """The names in several nodes that end in a number: one that is alone is no tuple, which is faster to collect."""
    found: list[int] = []
    for part in parts:
        found += part.numbered if type(part.numbered) is tuple else (part.numbered,)
    return found[0] if len(found) == 1 else tuple(found)


def _of_name(text: str) -> tuple[str, int | tuple[int, ...]]:
    stem = text.rstrip(DIGITS)
    digits = text[len(stem) :].lstrip("0") or text[len(stem) :][-1:]
    stem = text[: len(text) - len(digits)]
    if not digits or len(digits) > _MOST_DIGITS:
        return _printable(text) + " ", ()
    number = _stem_numbers.get(stem)
    if number is None:
        if len(_stems) >= _MOST_STEMS:
            return _printable(text) + " ", ()
        number = next(_next_stem)
        _stems[number] = stem
        number = _stem_numbers.setdefault(stem, number)
    return _printable(stem) + "# ", number << _BITS | int(digits)


def _of_other(node: Node) -> str:
    kind = type(node)
    if kind is Opcode:
        return f"{BEGIN}{_printable(node.text)} "
    if kind is Number:
        return f"0{number_shape(node.text).type} "
    if kind is Guard:
        return f"{BEGIN}@{node.children[0].pattern}{_GUARDED}"  # type: ignore[attr-defined]
    if isinstance(node, Leaf):
        return f"{_printable(node.text)} "
    parts = [part.pattern if kind in _TRANSPARENT or type(part) is not Number else part.text for part in node.children]  # type: ignore[attr-defined]
    return "".join([piece for pair in zip(node.shape.tokens, [*parts, " "], strict=True) for piece in pair])  # type: ignore[attr-defined]


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)
