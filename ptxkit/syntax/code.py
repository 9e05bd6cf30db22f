"""The statements of a block, of which instructions are only texts until they are looked at.

Most of what is asked of a block needs no nodes of its instructions: their patterns, their names, its other statements. So the scanner's
texts are kept, once it is known that each is an instruction, and the nodes are made together when one of them is looked at.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from ptxkit.memo import collector_paused
from ptxkit.syntax import nodes
from ptxkit.syntax.instructions import BETWEEN, Pattern, remembered, single, split
from ptxkit.syntax.nodes import Block, Container, Instruction, Node
from ptxkit.syntax.tree import Deferred, setter

_SEPARATORS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_$%.")}
"""What stands between the names and numbers of operands."""

# what attrs' frozen __init__ does, without its detour
_new = object.__new__
_set_leading, _set_shape, _set_children = [setter(nodes.Statement, field) for field in ("leading", "shape", "children")]
_making = threading.RLock()


class Code(Deferred):
    """The statements of a block or a module."""

    __slots__ = ("_children", "_comments", "_operands", "_others", "patterns")

    def __init__(self, patterns: list[Pattern], operands: str, comments: dict[int, str], others: Sequence[tuple[int, Node]]) -> None:
        self.patterns = patterns
        """The pattern of each instruction."""
        self._operands = operands
        self._comments = comments
        self._others = others
        self._children: tuple[Node, ...] | None = None

    @property
    def others(self) -> Sequence[tuple[int, Node]]:
        return self._others

    @property
    def children(self) -> tuple[Node, ...]:
        found = self._children
        if found is None:
            with _making, collector_paused():
                found = self._children = self._children or self._made()
        return found

    @property
    def leadings(self) -> set[str]:
        own = {pattern.leading if pattern.instruction is None else pattern.instruction.leading for pattern in set(self.patterns)}
        return own.union(self._comments.values(), [other.leading for _, other in self._others])  # type: ignore[attr-defined]

    @property
    def texts(self) -> list[str]:
        """The text of each instruction's pattern."""
        return [pattern.text for pattern in self.patterns]

    def numbers(self, texts: Collection[str]) -> list[int]:
        """The numbers of the instructions whose patterns have one of these texts."""
        wanted = {pattern for pattern in set(self.patterns) if pattern.text in texts}
        return [number for number, pattern in enumerate(self.patterns) if pattern in wanted] if wanted else []

    def firsts(self) -> dict[str, int]:
        """The text of each pattern, with the number of the first instruction that has it."""
        # of equal keys, the last wins
        backwards = dict(zip(reversed(self.patterns), range(len(self.patterns) - 1, -1, -1), strict=True))
        found: dict[str, int] = {}
        for pattern, number in sorted(backwards.items(), key=itemgetter(1)):
            found.setdefault(pattern.text, number)
        return found

    def names(self) -> set[str]:
        """The names that the instructions use, and numbers."""
        found = words(self._operands)
        for pattern in set(self.patterns):
            found.update(pattern.names)
        return found

    def spelled(self, names: Collection[str]) -> list[str]:
        """For each name that an instruction uses: the name if it is one of these, else an empty text. Those of guards come last."""
        used = chain(self._operands.translate(_SEPARATORS).split(), *[pattern.names for pattern in self.patterns])
        return [name if (name := word.partition(".")[0]) in names else "" for word in used]

    def examples(self, numbers: Collection[int]) -> list[Instruction]:
        """The instructions of these numbers, without comments. They are other objects than those among the statements."""
        texts = self.operands if numbers else ()
        return _instructions([(self.patterns[number], texts[number]) for number in numbers])

    def indices(self, numbers: Collection[int]) -> list[int]:
        """The indices of the instructions of these numbers among all statements."""
        before = [index - i for i, (index, _) in enumerate(self._others)] if numbers else []
        return [number + bisect.bisect_right(before, number) for number in numbers]

    @property
    def operands(self) -> list[str]:
        """The text of the operands of each instruction that is not the only one of its pattern."""
        return self._operands.split(BETWEEN) if self.patterns else []

    def _made(self) -> tuple[Node, ...]:
        instructions = _instructions(zip(self.patterns, self.operands, strict=True))
        share = remembered().heads.leadings.setdefault
        for number, comments in self._comments.items():
            leading = comments + instructions[number].leading
            _set_leading(instructions[number], share(leading, leading))
        if not self._others:
            return tuple(instructions)
        made: list[Node] = []
        taken = 0
        for index, other in self._others:
            end = taken + index - len(made)
            made += instructions[taken:end]
            made.append(other)
            taken = end
        return (*made, *instructions[taken:])


def _instructions(rows: Iterable[tuple[Pattern, str]]) -> list[Instruction]:
    """The instructions of these patterns and operands."""
    operand = remembered().operands.__getitem__
    made: list[Instruction] = []
    add = made.append
    for pattern, text in rows:
        if pattern.instruction is not None:
            add(pattern.instruction)
            continue
        pieces = (text.split(", ") if text else ()) if pattern.is_plain else split(text)[0]
        instruction = _new(Instruction)
        _set_leading(instruction, pattern.leading)
        _set_shape(instruction, pattern.form)
        _set_children(instruction, (*pattern.before, *map(operand, pieces)))
        add(instruction)
    return made


def words(operands: str) -> set[str]:
    """The names and numbers in operands, without selectors and fractions."""
    found = set(operands.translate(_SEPARATORS).split())
    selected = [word for word in found if "." in word]
    found.difference_update(selected)
    found.update([word.partition(".")[0] for word in selected])
    found.discard("")
    return found


class Draft:
    """A block that is being read."""

    def __init__(self) -> None:
        self._patterns: list[Pattern] = []
        self._operands: list[str] = []
        self._comments: dict[int, str] = {}
        self._others: list[tuple[int, Node]] = []
        self._count = 0
        self.last: Node | None = None
        """The last statement, unless it is an instruction."""

    def extend(self, patterns: Sequence[Any], operands: Sequence[str], comments: Sequence[str], start: int, end: int) -> None:
        """Adds the instructions from `start` to `end` of a stretch of text, with the comments that lead them."""
        if start == end:
            return
        if any(comments[start:end]):
            before = len(self._patterns) - start
            self._comments.update([(before + i, comments[i]) for i in range(start, end) if comments[i]])
        self._patterns += patterns[start:end]
        self._operands.append(BETWEEN.join(operands[start:end]))
        self._count += end - start
        self.last = None

    def add(self, statement: Node) -> None:
        """Adds one statement."""
        if type(statement) is Instruction:
            self._patterns.append(single(statement))
            self._operands.append("")
            self.last = None
        else:
            self._others.append((self._count, statement))
            self.last = statement
        self._count += 1

    def remove_last(self) -> None:
        """Removes the last statement, which is not an instruction."""
        self._others.pop()
        self._count -= 1
        self.last = None

    def replace_last(self, statement: Node) -> None:
        """Replaces the last statement, which is not an instruction."""
        self.remove_last()
        self.add(statement)

    def code(self) -> Code:
        """The statements."""
        return Code(self._patterns, BETWEEN.join(self._operands), self._comments, self._others)


def code_of(container: Container) -> Code:
    """The statements of a block or a module, by their patterns."""
    if isinstance(container, Block) and isinstance(container.deferred, Code):
        return container.deferred
    draft = Draft()
    for child in container.children:
        draft.add(child)
    return draft.code()
