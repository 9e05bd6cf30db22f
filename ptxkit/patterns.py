"""Instructions that differ only in the numbers of registers and in constants, so that a rule examines one of them instead of all.

The *pattern* of an operand is its text without the numbers that names end in (`%r12`) and without the values of constants, unless its shape
could depend on them. It follows from the node alone, which keeps it; the instructions of a process share nodes.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
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
"""The number in a name is below 1 << _BITS; the bits above it tell the stem."""
_MOST_DIGITS = 9
_MOST_STEMS = 1 << 16
"""So many stems are told apart in a process. Names with other stems are their own patterns."""

_stem_numbers: dict[str, int] = {}
_stems: dict[int, str] = {}
_next_stem = count()


class Sketch:
    """The instructions of one scope, with one example for each pattern, and the keys of their opcodes and operand shapes."""

    def __init__(self, scope: Scope, instructions: Sequence[Instruction], keys: Keys) -> None:
        self.scope = scope
        self.instructions = instructions
        self.shaper = Shaper(scope, keys)
        """Knows the operands of the examples."""
        self._text, numbered = _drafted(list(chain.from_iterable([instruction.children for instruction in instructions])))
        patterns = self.patterns
        self.examples = dict(zip(patterns, instructions, strict=True))
        """An instruction of each pattern."""
        self.mixed: set[str] = set()
        """Patterns whose instructions differ in shape, since names with the same stem are declared differently."""
        self._exact: dict[int, str] = {}
        """The keys of the instructions of mixed patterns, by their positions."""
        self.shaper.learn({id(node): node for example in self.examples.values() for node in example.children})
        mixed = self._resolve(sorted(numbered))
        if mixed:
            self.mixed.update([pattern for pattern, example in self.examples.items() if not mixed.isdisjoint(_stems_of(example))])
            self._exact.update([(i, self._exactly(instructions[i])) for i, pattern in enumerate(patterns) if pattern in self.mixed])
        self._keys = {pattern: self.shaper.key(example) for pattern, example in self.examples.items()}

    @property
    def patterns(self) -> list[str]:
        """The pattern of each instruction."""
        return self._text.split(BEGIN)[1:]

    @property
    def keys(self) -> list[str]:
        """The key of each instruction: equal for those with equal opcodes and operand shapes."""
        keys = list(map(self._keys.__getitem__, self.patterns))
        for i, key in self._exact.items():
            keys[i] = key
        return keys

    @property
    def by_key(self) -> dict[str, Instruction]:
        """An instruction of each key."""
        found = {key: self.examples[pattern] for pattern, key in self._keys.items()}
        found.update([(key, self.instructions[i]) for i, key in self._exact.items()])
        return found

    def key(self, instruction: Instruction) -> str:
        """The key of one of the instructions."""
        pattern = _drafted(instruction.children)[0].removeprefix(BEGIN)
        return self._exactly(instruction) if pattern in self.mixed else self._keys[pattern]

    def with_keys(self, wanted: Iterable[str]) -> set[str]:
        """The patterns whose instructions may have one of these keys."""
        wanted = frozenset(wanted)
        found = {pattern for pattern, key in self._keys.items() if key in wanted}
        return found | self.mixed if not wanted.isdisjoint(self._exact.values()) else found

    def _exactly(self, instruction: Instruction) -> str:
        self.shaper.learn({id(node): node for node in instruction.children})
        return self.shaper.key(instruction)

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
            elif len({self.shaper.name_key(f"{name}{number - first}") for number in numbered[at:end]}) > 1:
                mixed.add(stem)
            at = end
        return mixed


def _drafted(nodes: Sequence[Any]) -> tuple[str, set[int]]:
    """The patterns of nodes as one text, and the names in them that end in a number."""
    try:
        text = "".join([node.pattern for node in nodes])
    except AttributeError:
        for node in nodes:
            _enter(node)
        text = "".join([node.pattern for node in nodes])
    return text.replace(_GUARDED + BEGIN, _GUARDED), set(chain.from_iterable([node.numbered for node in nodes]))


def _stems_of(instruction: Instruction) -> list[int]:
    return [name >> _BITS for name in _drafted(instruction.children)[1]]


def _enter(node: Any) -> None:
    """Sets the pattern of a node and of its parts."""
    if hasattr(node, "pattern"):
        return
    for part in node.children:
        _enter(part)
    # the function of `Apply` is no operand
    operands = node.children[1:] if type(node) is Apply else node.children
    numbered: tuple[int, ...] = tuple(chain.from_iterable([part.numbered for part in operands]))
    if type(node) is Name:
        pattern, numbered = _of_name(node.text)
    else:
        pattern = _of_other(node)
    object.__setattr__(node, "numbered", numbered)
    # last, since another thread that reads the same tree may look for it
    object.__setattr__(node, "pattern", pattern)


def _of_name(text: str) -> tuple[str, tuple[int, ...]]:
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
    return _printable(stem) + "# ", (number << _BITS | int(digits),)


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
