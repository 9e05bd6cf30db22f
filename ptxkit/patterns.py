"""Instructions that differ only in the numbers of registers and in constants, so that a rule examines one of them instead of all.

They have the same pattern, which the parser finds out (`ptxkit.syntax.instructions`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.mentions import Mentioned
from ptxkit.operands import Shaper
from ptxkit.syntax import Code, Instruction, words


class Sketch:
    """The instructions of one scope, with one example for each text of a pattern, and the keys of their opcodes and operand shapes."""

    def __init__(self, shaper: Shaper, blocks: Sequence[Code], mentioned: Mentioned) -> None:
        self.shaper = shaper
        self._blocks = blocks
        self.examples: dict[str, Instruction] = {}
        """An instruction of each pattern."""
        self.mixed: set[str] = set()
        """Patterns whose instructions differ in shape, since names that differ in numbers are declared differently."""
        self._exact: dict[int, str] = {}
        """The keys of the instructions of mixed patterns, by their positions."""
        for block in blocks:
            positions = {pattern: number for pattern, number in block.firsts().items() if pattern not in self.examples}
            self.examples.update(zip(positions, block.examples(positions.values()), strict=True))
        self._keys = {pattern: shaper.instruction(example) for pattern, example in self.examples.items()}
        self.by_key = {self._keys[pattern]: example for pattern, example in self.examples.items()}
        """An instruction of each key."""
        mixed = {name for name, meanings in mentioned.apart.items() if len(set(map(shaper.key_of, meanings))) > 1}
        if mixed:
            self.mixed.update([pattern for pattern in self.examples if not mixed.isdisjoint(words(pattern))])
            before = 0
            for block in blocks:
                numbers = block.numbers(self.mixed)
                for number, instruction in zip(numbers, block.examples(numbers), strict=True):
                    key = self._exact[before + number] = shaper.instruction(instruction)
                    self.by_key[key] = instruction
                before += len(block.patterns)

    @property
    def patterns(self) -> list[str]:
        """The pattern of each instruction."""
        return [text for block in self._blocks for text in block.texts]

    @property
    def keys(self) -> list[str]:
        """The key of each instruction: equal for those with equal opcodes and operand shapes."""
        keys = list(map(self._keys.__getitem__, self.patterns))
        for i, key in self._exact.items():
            keys[i] = key
        return keys

    def key(self, at: int, pattern: str) -> str:
        """The key of the instruction at a position, which has a pattern."""
        return self._exact.get(at) or self._keys[pattern]

    def with_keys(self, wanted: frozenset[str]) -> set[str]:
        """The patterns whose instructions may have one of these keys."""
        found = {pattern for pattern, key in self._keys.items() if key in wanted}
        return found | self.mixed if not wanted.isdisjoint(self._exact.values()) else found
