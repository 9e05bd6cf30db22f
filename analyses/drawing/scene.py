"""The contents of a picture, independent of the format: boxes with rows, arrows, loops.

At block level, a box is a basic block; at instruction level, an instruction. Long boxes are folded: the first and last rows are kept, and
relevant ones in between; the rest is replaced by a count.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import attrs

from ptxkit.analyses.cfg.graph import BasicBlock, ControlFlow, Edge, Via, control_flow
from ptxkit.analyses.cfg.loops import Loop, loops
from ptxkit.analyses.drawing.coloring import COLORINGS, Coloring, heat
from ptxkit.analyses.drawing.tokens import COMMENT, Class, Token, Tokenizer, Variable, clip, short
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.demangling import readable
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.syntax import File, Instruction, Label, Loc, Module

WIDEST = 116
"""Maximum number of characters of an instruction in a row."""
MOST_JUMPED = 1000
"""Maximum number of boxes that all arrows together may pass over, besides two for each box: layout time grows with it. The rest become
stubs."""
ENDS = {"return": "return", "exit": "exit", "trap": "trap"}


class Mark(enum.StrEnum):
    """Why a row is marked."""

    NONE = ""
    BARRIER = "barrier"
    TOGETHER = "together"
    EXIT = "exit"


@frozen
class Row:
    """A line in a box. `first` to `last` (inclusive) are its instructions: one, or several for a fold."""

    tokens: tuple[Token, ...]
    first: int
    last: int
    mark: Mark = Mark.NONE
    note: str = ""
    source: str = ""
    value: int | None = None

    @property
    def hidden(self) -> int:
        """The number of instructions folded here."""
        return self.last - self.first + 1 if not self.tokens else 0


@frozen
class Box:
    """A node of the picture: instructions `start` to `end` (exclusive)."""

    index: int
    block: int
    start: int
    end: int
    labels: tuple[str, ...]
    badges: tuple[str, ...]
    rows: tuple[Row, ...]
    reachable: bool
    value: int | None
    loop: int | None
    is_entry: bool = False
    is_first: bool = True
    """Whether it begins a block, which it then names."""

    @property
    def title(self) -> str:
        return f"B{self.block}"


@frozen
class Arrow:
    """An edge of the picture. A stub is drawn as an arrow to the name of its target, which is too distant for a line."""

    source: int
    target: int
    via: Via
    label: str
    is_back: bool
    """Whether it is a back edge of a loop."""
    is_upward: bool
    """Whether its target comes first in the order of the picture, as for every back edge."""
    is_stub: bool = False


@frozen
class Fold:
    """The number of rows that a long box keeps: at its head, at its tail, and of the marked ones in between."""

    head: int
    tail: int
    marked: int

    @classmethod
    def of(cls, boxes: int) -> Fold:
        """The more boxes, the fewer rows."""
        return cls(14, 8, 8) if boxes <= 60 else cls(6, 4, 4) if boxes <= 300 else cls(3, 2, 2) if boxes <= 1000 else cls(1, 1, 1)


@frozen(eq=False)
class Scene:
    """A picture of one function."""

    routine: Routine
    level: str
    coloring: Coloring | None
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    loops: tuple[Loop, ...]
    tokenizer: Tokenizer = attrs.field(repr=False)
    sources: tuple[str, ...] = attrs.field(repr=False)
    """By instruction, its source position from `.loc`, such as `file.cu:12`, or empty."""
    notes: tuple[tuple[Mark, str], ...] = attrs.field(repr=False)
    """By instruction, its mark and the text for it."""

    @property
    def name(self) -> str:
        """The function's name as in the source."""
        return readable(self.routine.name)

    @property
    def kind(self) -> str:
        return "kernel" if self.routine.function.is_entry else "function"

    @property
    def variables(self) -> list[Variable]:
        return self.tokenizer.variables

    @property
    def summary(self) -> str:
        """The size as text."""
        blocks = len({box.block for box in self.boxes})
        parts = [_count(len(self.routine.instructions), "instruction"), _count(blocks, "block"), _count(len(self.loops), "loop")]
        return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def scene(
    routine: Routine, color: str = "none", level: str = "blocks", fold: Fold | None = None, counts: Sequence[int] | None = None
) -> Scene:
    """The picture of a function, colored by the counts of its instructions, if given.

    Raises CannotDraw if there is nothing to color by, ValueError for an unknown coloring or level.
    """
    if color not in COLORINGS:
        raise ValueError(f"no coloring is called {color!r}; there are {', '.join(COLORINGS)}")
    if level not in ("blocks", "instructions"):
        raise ValueError(f"no level is called {level!r}; there are blocks, instructions")
    flow = control_flow(routine)
    coloring = COLORINGS[color](routine) if counts is None else heat(routine, counts)
    forest = loops(routine)
    tokenizer = Tokenizer(routine)
    sources, labels, comments = _around(routine)
    notes = tuple([_note(bound) if isinstance(bound, Bound) else (Mark.NONE, "") for bound in bindings(routine)])
    maker = _Maker(routine, flow, coloring, tokenizer, sources, labels, comments, notes)
    if level == "blocks":
        fold = fold or Fold.of(len(flow.blocks))
        boxes = [maker.box(block.index, block, block.start, block.end, fold) for block in flow.blocks]
    else:
        boxes = [maker.box(i, flow.blocks[b], i, i + 1, Fold(1, 1, 1)) for i, b in enumerate(flow.block_of)]
    inner = forest.innermost
    placed = tuple([attrs.evolve(box, loop=inner[box.block]) for box in boxes])
    arrows = _stubs(tuple(_arrows(flow, forest.loops, level == "instructions")), MOST_JUMPED + 2 * len(placed))
    return Scene(routine, level, coloring, placed, arrows, forest.loops, tokenizer, sources, notes)


@frozen
class _Maker:
    routine: Routine
    flow: ControlFlow
    coloring: Coloring | None
    tokenizer: Tokenizer
    sources: tuple[str, ...]
    labels: dict[int, list[str]]
    comments: dict[int, list[str]]
    notes: tuple[tuple[Mark, str], ...]

    def box(self, index: int, block: BasicBlock, start: int, end: int, fold: Fold) -> Box:
        reachable = block.index in self.flow.reachable
        value = None
        if self.coloring is not None:
            rows = self.coloring.rows
            value = max(rows[start:end]) if rows else self.coloring.blocks[block.index]
        return Box(
            index,
            block.index,
            start,
            end,
            tuple(self.labels.get(start, ())),
            tuple(self._badges(block, start, end, reachable)),
            tuple(self._rows(start, end, fold)),
            reachable,
            value,
            None,
            start == 0,
            start == block.start,
        )

    def _badges(self, block: BasicBlock, start: int, end: int, reachable: bool) -> Iterator[str]:
        if start == 0:
            yield "entry"
        if not reachable:
            yield "unreachable"
        if any(mark is Mark.BARRIER for mark, _ in self.notes[start:end]):
            yield "barrier"
        if end == block.end and block.leaves:
            yield ENDS.get(block.leaves, "no return")
        if end == block.end and block.falls_off:
            yield "runs off the end"

    def _rows(self, start: int, end: int, fold: Fold) -> Iterator[Row]:
        shown = _shown(start, end, fold, [i for i in range(start, end) if self.notes[i][0] in (Mark.BARRIER, Mark.EXIT)])
        i = start
        source = ""
        while i < end:
            if i not in shown:
                first = i
                while i < end and i not in shown:
                    i += 1
                source = self.sources[i - 1]
                yield Row((), first, i - 1, value=max(self.coloring.rows[first:i]) if self.coloring and self.coloring.rows else None)
                continue
            if i > start:
                for label in self.labels.get(i, ()):
                    yield Row((Token(Class.LABEL, short(label, 40) + ":"),), i, i)
            for comment in self.comments.get(i, ()):
                yield Row((Token(Class.COMMENT, short(comment, 72)),), i, i)
            yield self._row(i, self.sources[i] if self.sources[i] != source else "")
            source = self.sources[i]
            i += 1

    def _row(self, i: int, source: str) -> Row:
        mark, note = self.notes[i]
        value = self.coloring.rows[i] if self.coloring and self.coloring.rows else None
        return Row(clip(self.tokenizer(i), WIDEST), i, i, mark, note, source, value)


def _shown(start: int, end: int, fold: Fold, marked: list[int]) -> set[int]:
    """The instructions of a box that are shown. One or two rows are never folded."""
    if end - start <= fold.head + fold.tail + 2:
        return set(range(start, end))
    shown = {*range(start, start + fold.head), *range(end - fold.tail, end), *[i for i in marked if start <= i < end][: fold.marked]}
    for i in range(start, end - 1):
        if i - 1 in shown and i + 1 in shown:
            shown.add(i)
    return shown


def _note(bound: Bound) -> tuple[Mark, str]:
    """The mark of an instruction, from its form."""
    if bound.flow in ENDS:
        return Mark.EXIT, ENDS[bound.flow]
    together = bound.converges
    whole = f"whole {Level[together.level.upper()].word}" if together else ""
    actions = dict.fromkeys([barrier.action for barrier in bound.barrier])
    if actions:
        return Mark.BARRIER, ", ".join([*[f"barrier {' + '.join(actions)}"], *([whole] if whole else [])])
    return (Mark.TOGETHER, whole) if together else (Mark.NONE, "")


def _around(routine: Routine) -> tuple[tuple[str, ...], dict[int, list[str]], dict[int, list[str]]]:
    """The context of instructions: their source positions; labels, by the following instruction; and comments, by the instruction on the
    same line, else by the following one."""
    files = _files(routine.module)
    sources: list[str] = []
    labels: dict[int, list[str]] = {}
    comments: dict[int, list[str]] = {}
    paths = set(routine.paths)
    source, last = "", -1
    for path, statement in routine.function.statements():
        here = len(sources)
        leading = getattr(statement, "leading", "")
        if "/" in leading:
            for comment, is_on_same_line in _comments(leading):
                if is_on_same_line and last >= 0:
                    comments.setdefault(last, []).append(comment)
                elif isinstance(statement, Instruction | Label | Loc):
                    comments.setdefault(here, []).append(comment)
        last = here if path in paths else -1
        if isinstance(statement, Label):
            labels.setdefault(here, []).append(statement.name.text)
        elif isinstance(statement, Loc):
            source = _source(statement, files)
        elif path in paths:
            sources.append(source)
    return tuple(sources), labels, comments


def _files(module: Module) -> dict[int, str]:
    names: dict[int, str] = {}
    for child in module.children:
        if isinstance(child, File):
            names.setdefault(child.index, child.name.replace("\\", "/").rpartition("/")[2])
    return names


def _source(loc: Loc, files: dict[int, str]) -> str:
    """`file.cu:12`; for inlined code, with the location of the call. Line 0 means no line."""
    if not loc.line:
        return ""
    text = f"{short(files.get(loc.file, f'file {loc.file}'), 32)}:{loc.line}"
    at = loc.inlined_at
    return f"{text} in :{at[1]}" if at and at[0] == loc.file else text


def _comments(leading: str) -> Iterator[tuple[str, bool]]:
    """The comments before a statement, except for those that compilers put around inline assembly; and whether each is on the line on which
    the previous statement ends."""
    for found in COMMENT.finditer(leading):
        text = " ".join(found[0].split())
        if text.strip("/* -#=") and text not in ("// begin inline asm", "// end inline asm"):
            yield text, "\n" not in leading[: found.start()]


def _arrows(flow: ControlFlow, found: tuple[Loop, ...], instructions: bool) -> Iterator[Arrow]:
    back = {(latch, loop.header) for loop in found for latch in loop.latches}
    position = {block: i for i, block in enumerate(flow.order)}
    for block in flow.blocks:
        if instructions:
            yield from [Arrow(i, i + 1, Via.FALL, "", False, False) for i in range(block.start, block.end - 1)]
        for edge in block.edges:
            ends = (block.end - 1, flow.blocks[edge.target].start) if instructions else (edge.source, edge.target)
            upward = position.get(edge.target, edge.target) <= position.get(edge.source, edge.source)
            yield Arrow(*ends, _via(block, edge), _label(block, edge), (edge.source, edge.target) in back, upward)


def _via(block: BasicBlock, edge: Edge) -> Via:
    """An unguarded branch decides nothing: it is drawn like a fall-through."""
    if edge.via is Via.TAKEN and not any(other.via is Via.NOT_TAKEN for other in block.edges) and not block.falls_off:
        return Via.FALL
    return edge.via


def _label(block: BasicBlock, edge: Edge) -> str:
    via = _via(block, edge)
    if via is Via.INDEXED:
        return short(_indices(edge.indices), 24)
    return "T" if via is Via.TAKEN else "F" if via is Via.NOT_TAKEN else ""


def _indices(indices: tuple[int, ...]) -> str:
    """`0–3, 7` for 0, 1, 2, 3, 7."""
    runs: list[list[int]] = []
    for i in indices:
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ", ".join([str(low) if low == high else f"{low}–{high}" for low, high in runs])


def with_few_long_arrows(one: Scene) -> Scene:
    """The picture with more stubs, so that it is laid out quickly."""
    return attrs.evolve(one, arrows=_stubs(one.arrows, len(one.boxes)))


def _stubs(arrows: tuple[Arrow, ...], most: int) -> tuple[Arrow, ...]:
    """The arrows, the longest as stubs if together they pass over more than `most` boxes: each box passed over costs layout time."""
    spans = [abs(arrow.target - arrow.source) for arrow in arrows]
    keep = set()
    for i in sorted(range(len(arrows)), key=lambda i: spans[i]):
        most -= spans[i]
        if most < 0:
            break
        keep.add(i)
    return tuple([arrow if i in keep else attrs.evolve(arrow, is_stub=True) for i, arrow in enumerate(arrows)])
