"""Code to insert: parsing it from text, its names, and guarding it."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from ptxkit.frozen import frozen
from ptxkit.isa.forms import Condition
from ptxkit.isa.opcodes import Candidate, match
from ptxkit.names import names_in
from ptxkit.syntax import Block, Declaration, Function, Guard, Instruction, Label, Loc, Node, Pragma, parse, parse_operand, shape


@frozen
class Code:
    """Statements, with the properties that restrict where they may be inserted."""

    statements: tuple[Node, ...]
    declares: frozenset[str]
    """The names that it declares for the code that follows it, not those within its own braces."""
    hides: frozenset[str]
    """The names that it declares within braces."""
    uses: frozenset[str]
    """The names that it uses and does not declare."""
    writes_carry: bool
    reads_carry: bool
    """Whether it reads the condition code before writing it."""
    aligned: str | None
    """An instruction that all threads of a warp must execute together."""
    branch: str | None
    """An instruction or label that makes it more than straight-line code."""
    leaves: str | None
    """An instruction that returns from the function or exits the thread."""
    loc: bool
    pragma: bool
    wgmma: str | None


@functools.lru_cache(maxsize=4096)
def code(text: str) -> Code:
    """Parses code as it appears in a function. Raises ValueError, with the syntax error, if it is invalid."""
    module = parse(f".func f() {{{text}\n}}")
    if module.diagnostics or len(module.children) != 1:
        raise ValueError(f"{module.diagnostics[0].message if module.diagnostics else 'a stray brace'} in {text!r}")
    return _described(module.children[0].children[1].children)


@functools.lru_cache(maxsize=256)
def module_code(text: str) -> Code:
    """Parses variables and functions as they appear in a module. Raises ValueError, with the syntax error, if they are invalid."""
    module = parse(text)
    if module.diagnostics:
        raise ValueError(f"{module.diagnostics[0].message} in {text!r}")
    return _described(module.children)


def _described(statements: tuple[Node, ...]) -> Code:
    declares: set[str] = set()
    hides: set[str] = set()
    uses: set[str] = set()
    writes = reads = loc = pragma = False
    aligned = branch = leaves = wgmma = None
    for depth, statement in _walk(statements):
        if isinstance(statement, Declaration):
            (hides if depth else declares).update(_declared_names(statement))
        elif isinstance(statement, Label):
            (hides if depth else declares).add(statement.name.text)
            branch = branch or f"the label `{statement.name.text}`"
        elif isinstance(statement, Function):
            declares.add(statement.name)
        elif isinstance(statement, Loc):
            loc = True
        elif isinstance(statement, Pragma):
            pragma = True
        elif isinstance(statement, Instruction):
            uses.update([name.text for _, name in names_in(statement)])
            opcode = statement.opcode.text
            trait = traits(opcode)
            reads = reads or (trait.reads_carry and not writes)
            writes = writes or trait.writes_carry
            aligned = aligned or (f"`{opcode}`" if trait.aligned else None)
            if trait.flow in ("branch", "branch-indexed"):
                branch = branch or f"`{opcode}`"
            if trait.flow in ("return", "exit"):
                leaves = leaves or f"`{opcode}`"
            wgmma = wgmma or (f"`{opcode}`" if trait.group == "wgmma" else None)
    return Code(
        statements,
        frozenset(declares),
        frozenset(hides),
        frozenset(uses - declares - hides),
        writes,
        reads,
        aligned,
        branch,
        leaves,
        loc,
        pragma,
        wgmma,
    )


def _walk(statements: tuple[Node, ...]) -> Iterator[tuple[int, Node]]:
    """The statements in order, each with its depth of braces; the parser bounds the nesting."""
    for statement in statements:
        yield 0, statement
        if isinstance(statement, Block):
            for depth, inner in _walk(statement.children):
                yield depth + 1, inner


def _declared_names(declaration: Declaration) -> Iterator[str]:
    for declarator in declaration.declarators:
        yield declarator.name.text
        yield from [f"{declarator.name.text}{n}" for n in range(min(declarator.count or 0, 1024))]


@frozen
class Traits:
    """The properties of an opcode with any operands."""

    flow: str
    reads_carry: bool
    writes_carry: bool
    aligned: bool
    group: str
    """The kind of asynchronous group that it opens, commits, waits for or fences, such as `wgmma`."""


@functools.lru_cache(maxsize=16384)
def traits(opcode: str) -> Traits:
    """What holds for every form that the opcode may have."""
    flow, carry, aligned, group = "", set(), False, ""
    for candidate in match(opcode):
        form = candidate.form
        flow = flow or next((word.what for word in form.flow), "")
        carry.update([word.what for word in form.carry])
        aligned = aligned or any(word.what.aligned and _may_hold(word.when, candidate) for word in form.converges)
        if any(word.what.group == "wgmma" for word in form.asynchronous) or any(word.what == "wgmma-fence" for word in form.effects):
            group = "wgmma"
    return Traits(flow, any("r" in word for word in carry), any("w" in word for word in carry), aligned, group)


def _may_hold(condition: Condition, candidate: Candidate) -> bool:
    """Whether a condition may hold, judging by the modifiers alone."""
    for atom in condition:
        if atom.kind == "has" and any(value in candidate.modifiers or value in candidate.slots for value in atom.values) == atom.negated:
            return False
    return True


def guarded(statements: tuple[Node, ...], guard: Guard | None, scratch: str) -> tuple[Node, ...]:
    """The statements, executed only where a guard holds. `scratch` names a predicate register for statements that already have a guard.

    Raises ValueError for a label among them: a guard does not apply to branch targets.
    """
    if guard is None:
        return statements
    found: list[Node] = []
    for statement in statements:
        if isinstance(statement, Block):
            found.append(statement.with_children(guarded(statement.children, guard, scratch)))
        elif isinstance(statement, Label):
            raise ValueError(f"a label cannot be put under a guard: {statement.name.text}")
        elif not isinstance(statement, Instruction):
            found.append(statement)
        elif statement.guard is None:
            literals = statement.shape.literals
            found.append(Instruction(statement.leading, shape("", " ", *literals[1:]), (guard, *statement.children)))
        else:
            found += _both(statement, guard, scratch)
    return tuple(found)


def _both(statement: Instruction, guard: Guard, scratch: str) -> list[Node]:
    """Adds a guard to an instruction that has one: `{ .reg .pred q; q = both; @q … }`, with the operands unchanged."""
    own = statement.guard
    assert own is not None
    text = f"{{ .reg .pred {scratch};"
    text += f" not.pred {scratch}, {own.predicate};" if own.negated else f" mov.pred {scratch}, {own.predicate};"
    if guard.negated:
        text += f" @{guard.predicate} mov.pred {scratch}, 0;"
    else:
        text += f" and.pred {scratch}, {scratch}, {guard.predicate};"
    (block,) = code(text + " }").statements
    under = Guard(shape("@", ""), (parse_operand(scratch),))
    instruction = statement.with_children((under, *statement.children[1:])).with_leading(" ")
    assert isinstance(block, Block)
    return [block.with_children((*block.children, instruction)).with_leading(statement.leading)]
