"""Instructions that differ only in the numbers of registers and in constants, so that a rule examines one of them instead of all.

The *pattern* of an operand is its text without the numbers that names end in (`%r12`) and without the values of constants, unless its shape
could depend on them. It follows from the node alone, which keeps it; the instructions of a process share nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any

from ptxkit.mentions import mention, stem_of, stems
from ptxkit.operands import Shaper, number_shape
from ptxkit.syntax import Address, Guard, Instruction, Leaf, Name, Node, Number, Opcode, Pair, Vector

BEGIN = "\0"
"""Begins the pattern of an instruction."""
_GUARDED = "\1"
"""Ends the pattern of a guard."""

_TRANSPARENT = frozenset((Address, Pair, Vector))
"""The operands whose shapes follow from those of their parts."""


class Sketch:
    """The instructions of one scope, with one example for each pattern, and the keys of their opcodes and operand shapes."""

    def __init__(self, shaper: Shaper, instructions: Sequence[Instruction], text: str, apart: dict[int, list[str]]) -> None:
        """`text` as from `drafted`, and `apart` as from `ptxkit.mentions`."""
        self.shaper = shaper
        self.instructions = instructions
        self._text = text
        patterns = self.patterns
        self.examples = dict(zip(patterns, instructions, strict=True))
        """An instruction of each pattern."""
        parts = {node.pattern: node for example in self.examples.values() for node in _nodes(example)}
        known = dict(zip(parts, map(shaper.key, parts.values()), strict=True))
        self._keys = {pattern: "".join([known[node.pattern] for node in _nodes(example)]) for pattern, example in self.examples.items()}
        self.mixed: set[str] = set()
        """Patterns whose instructions differ in shape, since names with the same stem are declared differently."""
        self._exact: dict[int, str] = {}
        """The keys of the instructions of mixed patterns, by their positions."""
        mixed = {stem for stem, names in apart.items() if len(set(map(shaper.name_key, names))) > 1}
        if mixed:
            self.mixed.update([pattern for pattern, example in self.examples.items() if _has_stem(example, mixed)])
            self._exact.update([(i, shaper.instruction(instructions[i])) for i, pattern in enumerate(patterns) if pattern in self.mixed])

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

    def key(self, at: int, pattern: str) -> str:
        """The key of the instruction at a position, which has a pattern."""
        return self._exact.get(at) or self._keys[pattern]

    def with_keys(self, wanted: frozenset[str]) -> set[str]:
        """The patterns whose instructions may have one of these keys."""
        found = {pattern for pattern, key in self._keys.items() if key in wanted}
        return found | self.mixed if not wanted.isdisjoint(self._exact.values()) else found


def drafted(instructions: Sequence[Instruction]) -> str:
    """The patterns of instructions as one text."""
    nodes: list[Any] = list(chain.from_iterable([instruction.children for instruction in instructions]))
    try:
        text = "".join([node.pattern for node in nodes])
    except AttributeError:
        for node in nodes:
            if not hasattr(node, "pattern"):
                _enter(node)
        text = "".join([node.pattern for node in nodes])
    return text.replace(_GUARDED + BEGIN, _GUARDED)


def spelled_out(instructions: Sequence[Instruction], stems: Collection[int]) -> str:
    """Patterns of instructions, `drafted` before, in which names with some stems are written with their numbers."""
    nodes: list[Any] = list(chain.from_iterable([instruction.children for instruction in instructions]))
    return "".join([node.text if any(map(stems.__contains__, map(stem_of, node.mentions))) else node.pattern for node in nodes])


def _has_stem(instruction: Instruction, stems: set[int]) -> bool:
    return any(stem_of(name) in stems for node in _nodes(instruction) for name in node.mentions)


def _nodes(instruction: Instruction) -> tuple[Any, ...]:
    """Guard, opcode and operands, with their patterns."""
    return instruction.children


def _enter(node: Any) -> None:
    """Sets the pattern of a node and of its parts."""
    if hasattr(node, "pattern"):
        return
    for part in node.children:
        _enter(part)
    object.__setattr__(node, "pattern", _of_name(node.text) if type(node) is Name else _of_other(node))


def _of_name(text: str) -> str:
    name = mention(text)
    return f"{_printable(text)} " if type(name) is str else f"{_printable(stems[stem_of(name)])}# "


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
