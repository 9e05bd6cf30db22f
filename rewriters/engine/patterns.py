"""Selects instructions by opcode, modifiers, operands, state space, guard, position in the graph, and source line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.framework.routine import Routine, fact, routines
from ptxkit.frozen import frozen
from ptxkit.syntax import Address, Function, Instruction, Leaf, Loc, Module, Name, Node, Path, parse_statement

POSITIONS = ("any", "first", "last", "block-start", "block-end", "loop-header")


@frozen
class Site:
    """An instruction of a function, by its index in document order."""

    routine: Routine
    index: int

    @property
    def instruction(self) -> Instruction:
        return self.routine.instructions[self.index]

    @property
    def path(self) -> Path:
        """Its path in the module."""
        return self.routine.where(self.index)


@frozen
class Pattern:
    """What an instruction must match; fields left at their defaults match anything.

    `place` is one of `POSITIONS`: the first or last instruction of its function, the first or last of a basic block, the first of a loop.
    """

    mnemonic: str = ""
    has: tuple[str, ...] = ()
    """Modifiers that must all be present, in any order."""
    lacks: tuple[str, ...] = ()
    """Modifiers that must all be absent."""
    operands: tuple[Node, ...] | None = None
    """As many operands, each matching; `_` matches anything, `[_]` any address."""
    space: str = ""
    """A state space named by a modifier: `.shared` includes `.shared::cta`."""
    guarded: bool | None = None
    function: str = ""
    file: int | None = None
    line: int | None = None
    """The line of the `.loc` in effect, in the file of that number."""
    place: str = attrs.field(default="any", validator=attrs.validators.in_(POSITIONS))


def pattern(text: str) -> Pattern:
    """Parses a pattern, written like an instruction: `ld.global`, `st.shared.f32 [_], _`, `@ bra _`.

    Its modifiers must be present; without operands, any operands match; a leading `@` requires a guard. Raises ValueError for text that is
    not an instruction.
    """
    guard, _, rest = text.strip().rpartition("@")
    if guard.strip():
        raise ValueError(f"not a pattern: {text!r}")
    statement = parse_statement(rest.strip().rstrip(";") + ";")
    if not isinstance(statement, Instruction) or statement.guard:
        raise ValueError(f"not a pattern: {text!r}")
    operands = statement.operands or None
    return Pattern(statement.opcode.mnemonic, statement.opcode.modifiers, operands=operands, guarded=True if "@" in text else None)


def select(subject: Module | Iterable[Routine], wanted: Pattern | str) -> Iterator[Site]:
    """The instructions that are like the pattern, in document order. A text is a pattern as `pattern` reads it.

    For instance:

        >>> from ptxkit import parse
        >>> module = parse(".entry k() { .reg .b64 %a; .reg .b32 %r; ld.global.u32 %r, [%a]; ld.shared.u32 %r, [%r]; ret; }")
        >>> [site.instruction.body_text for site in select(module, "ld.global _, [_]")]
        ['ld.global.u32 %r, [%a];']
    """
    chosen = pattern(wanted) if isinstance(wanted, str) else wanted
    for routine in routines(subject) if isinstance(subject, Module) else subject:
        if chosen.function in ("", routine.name):
            yield from _of_routine(routine, chosen)


def _of_routine(routine: Routine, wanted: Pattern) -> Iterator[Site]:
    indices = _at_position(routine, wanted.place)
    opcodes: dict[int, bool] = {}
    for i in range(len(routine.instructions)) if indices is None else sorted(indices):
        instruction = routine.instructions[i]
        opcode = instruction.opcode
        fits = opcodes.get(id(opcode))
        if fits is None:
            fits = opcodes[id(opcode)] = _fits(opcode.mnemonic, opcode.modifiers, wanted)
        if not fits or (wanted.guarded is not None and wanted.guarded != (instruction.guard is not None)):
            continue
        if wanted.operands is not None and not _all_like(wanted.operands, instruction.operands):
            continue
        if wanted.line is not None or wanted.file is not None:
            loc = locations(routine)[i]
            if loc is None or wanted.line not in (None, loc.line) or wanted.file not in (None, loc.file):
                continue
        yield Site(routine, i)


def _fits(mnemonic: str, modifiers: tuple[str, ...], wanted: Pattern) -> bool:
    if wanted.mnemonic not in ("", mnemonic) or any(modifier in modifiers for modifier in wanted.lacks):
        return False
    if wanted.space and not any(modifier == wanted.space or modifier.startswith(wanted.space + "::") for modifier in modifiers):
        return False
    return all(modifiers.count(modifier) >= wanted.has.count(modifier) for modifier in wanted.has)


def _at_position(routine: Routine, place: str) -> set[int] | None:
    count = len(routine.instructions)
    if place == "any":
        return None
    if place in ("first", "last"):
        return set() if not count else {0 if place == "first" else count - 1}
    flow = control_flow(routine)
    if place == "loop-header":
        return {flow.blocks[header].start for header in loops(routine).headers}
    return {block.start if place == "block-start" else block.end - 1 for block in flow.blocks if block.end > block.start}


def _all_like(wanted: tuple[Node, ...], found: tuple[Node, ...]) -> bool:
    return len(wanted) == len(found) and all(map(like, wanted, found))


def like(wanted: Node, found: Node) -> bool:
    """Whether an operand matches a pattern, in which `_` matches anything and `[_]` any address."""
    if isinstance(wanted, Name) and wanted.text == "_":
        return True
    if type(wanted) is not type(found):
        return False
    if isinstance(wanted, Leaf):
        return wanted.text == found.text
    if isinstance(wanted, Address) and wanted.base.text == "_" and len(wanted.children) == 1:
        return True
    return _all_like(wanted.children, found.children)


@fact
def locations(routine: Routine) -> tuple[Loc | None, ...]:
    """The `.loc` in effect at each instruction."""
    found: list[Loc | None] = []
    loc: Loc | None = None
    function: Function = routine.function
    for _, statement in function.statements():
        if type(statement) is Loc:
            loc = statement
        elif type(statement) is Instruction:
            found.append(loc)
    return tuple(found)
