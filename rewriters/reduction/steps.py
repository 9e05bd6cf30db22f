"""What may be taken away or made simpler: each step gives independent edits, the coarse steps first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from ptxkit.analyses.cfg import control_flow
from ptxkit.analyses.routine import routines
from ptxkit.names import names_in, resolve
from ptxkit.rewriters.engine.registry import all_rewriters
from ptxkit.rewriters.engine.rewrite import Refused
from ptxkit.syntax.nodes import (
    Address,
    AddressSize,
    Block,
    Declaration,
    Function,
    Header,
    Instruction,
    Module,
    Name,
    Node,
    Number,
    Parameters,
    Path,
    PerformanceDirective,
    Target,
    Vector,
    Version,
)
from ptxkit.syntax.parsing import parse, parse_operand, parse_statement

Edits = Mapping[Path, Sequence[Node]]
"""By path what comes in place of the node there."""


@attrs.frozen
class Step:
    """A name for the progress, and what may be edited."""

    name: str
    edits: Callable[[Module], list[Edits]]


def steps() -> tuple[Step, ...]:
    """All of them, in the order in which they are done."""
    return (
        Step("functions", functions),
        Step("bodies", bodies),
        Step("blocks", blocks),
        Step("instructions", instructions),
        Step("braces", braces),
        Step("operands", operands),
        Step("declarations", declarations),
        Step("headers", headers),
    )


def plainer(module: Module) -> Iterator[Module]:
    """The module in simpler ways of saying the same: without debugging data, comments, what never runs, and gaps in the registers."""
    rewriters = all_rewriters()
    for name in ("strip-debug", "dead-code", "renumber"):
        try:
            yield rewriters[name](module).module
        except (Refused, ValueError):
            continue
    yield uncommented(module)


def uncommented(module: Module) -> Module:
    """The module without comments between statements; each statement stands on a line of its own."""

    def bare(node: Node) -> Node:
        """How deep blocks nest, the parser bounds."""
        if isinstance(node, Function):
            return node.with_children([bare(child) for child in node.children])
        if isinstance(node, Block):
            inner = [bare(child) for child in node.children]
            return attrs.evolve(node, leading="\n", children=tuple(inner), close="\n}" if node.close else "")
        return node.with_leading("\n") if hasattr(node, "with_leading") else node

    return attrs.evolve(module, children=tuple([bare(child) for child in module.children]), trailing="\n")


def functions(module: Module) -> list[Edits]:
    """What stands at the top of a module goes, but for what each must have."""
    return [{(i,): ()} for i, child in enumerate(module.children) if not isinstance(child, Version | Target | AddressSize)]


def bodies(module: Module) -> list[Edits]:
    """All code of a function goes."""
    ret = parse_statement("\n\tret;")
    found: list[Edits] = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.body is not None and len(child.instructions) > 1:
            found.append({(i, 1): (child.body.with_children((ret,)),)})
    return found


def blocks(module: Module) -> list[Edits]:
    """The instructions of a basic block go; its label stays."""
    found: list[Edits] = []
    for routine in routines(module):
        for block in control_flow(routine).blocks:
            found.append({routine.where(i): () for i in range(block.start, block.end)})
    return found


def instructions(module: Module) -> list[Edits]:
    """A statement goes that is no declaration: an instruction, a label, a list of targets."""
    return [{path: ()} for path, statement in _statements(module) if not isinstance(statement, Declaration | Block)]


def braces(module: Module) -> list[Edits]:
    """A block goes, or its braces; inner ones are for the next time."""
    found: list[Edits] = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.body is not None:
            found += [{(i, 1, j): inner.children} for j, inner in enumerate(child.body.children) if isinstance(inner, Block)]
    return found


def operands(module: Module) -> list[Edits]:
    """One part of an instruction becomes simpler: no guard, a modifier less, an address without offset, zero for a number or register."""
    found: list[Edits] = []
    for path, statement in _statements(module):
        if isinstance(statement, Instruction):
            found += [{path: (new,)} for new in _simpler(statement)]
    return _apart(found)


def _simpler(instruction: Instruction) -> Iterator[Instruction]:
    if instruction.guard is not None:
        text = instruction.text[len(instruction.leading) :]
        new = parse_statement(instruction.leading + text[text.index(instruction.opcode.text) :])
        if isinstance(new, Instruction):
            yield new
    modifiers = instruction.opcode.modifiers
    for i in range(len(modifiers)):
        yield instruction.with_opcode("".join([instruction.opcode.mnemonic, *modifiers[:i], *modifiers[i + 1 :]]))
    for i, operand in enumerate(instruction.operands):
        if isinstance(operand, Address) and operand.offset is not None:
            yield instruction.with_operand(i, f"[{operand.base.text}]")
        elif isinstance(operand, Number) and operand.text != "0" and not operand.text.startswith(("0f", "0d", "0F", "0D")):
            yield instruction.with_operand(i, parse_operand("0"))
        elif isinstance(operand, Name) and i and operand.text.startswith("%"):
            yield instruction.with_operand(i, parse_operand("0"))
        elif isinstance(operand, Vector):
            continue


def _apart(edits: list[Edits]) -> list[Edits]:
    """Edits of one statement exclude each other: the first of each, the others come in later rounds."""
    first: dict[Path, Edits] = {}
    for edit in edits:
        for path in edit:
            first.setdefault(path, edit)
    return list(first.values())


def declarations(module: Module) -> list[Edits]:
    """A declaration goes that nothing uses."""
    names = resolve(module)
    used: set[str] = set()
    for _, statement in _statements(module):
        used.update([name.text for _, name in names_in(statement)] if not isinstance(statement, Declaration) else [])
    found: list[Edits] = []
    for path, statement in _statements(module):
        if isinstance(statement, Declaration):
            scope = names.scope_of(path)
            declared = {one.name.text for one in statement.declarators}
            families = {one.name.text for one in statement.declarators if one.count is not None}
            if not declared & used and not any(_family(name, families) and scope.lookup(name) is not None for name in used):
                found.append({path: ()})
    return found


def _family(name: str, families: set[str]) -> bool:
    return any(name.startswith(stem) and name[len(stem) :].isdecimal() for stem in families)


def headers(module: Module) -> list[Edits]:
    """A function loses a parameter, or a directive; those of one function are for one round each."""
    found: list[Edits] = []
    for i, child in enumerate(module.children):
        if not isinstance(child, Function) or child.body is None:
            continue
        pieces = list(child.header.pieces())
        for at, piece in enumerate(pieces):
            if isinstance(piece, PerformanceDirective):
                texts = [""]
            elif isinstance(piece, Parameters):
                inner = [one.text.strip() for one in piece.parameters]
                texts = [f"({', '.join([*inner[:k], *inner[k + 1 :]])})" for k in reversed(range(len(inner)))]
            else:
                continue
            for text in texts:
                header = _header("".join([*map(_text, pieces[:at]), text, *map(_text, pieces[at + 1 :])]))
                if header is not None:
                    found.append({(i, 0): (header,)})
    return found


def _text(piece: str | Node) -> str:
    return piece if isinstance(piece, str) else str(piece.text)


def _header(text: str) -> Header | None:
    """The header of a function, parsed."""
    module = parse(text + "{}")
    found = module.children[0] if module.children else None
    return found.header if isinstance(found, Function) and not module.diagnostics else None


def _statements(module: Module) -> Iterator[tuple[Path, Node]]:
    """The statements in functions with their paths from the module."""
    for i, child in enumerate(module.children):
        if isinstance(child, Function):
            for path, statement in child.statements():
                yield (i, *path), statement
