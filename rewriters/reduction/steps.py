"""Reduction steps: each gives independent edits that remove or simplify something, coarse steps first."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import routines
from ptxkit.frozen import frozen
from ptxkit.names import Kind, names_in, resolve
from ptxkit.rewriters.engine.registry import Rewriter, all_rewriters
from ptxkit.syntax import (
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
    Version,
    parse,
    parse_operand,
    parse_statement,
)

PARTS = 8
"""Maximum number of parts of an instruction that are simplified, one by one."""

Edits = Mapping[Path, Sequence[Node]]
"""The replacement for the node at each path."""


@frozen
class Step:
    """A step: its name, for progress reports, and its edits."""

    name: str
    edits: Callable[[Module], list[Edits]]


def steps() -> tuple[Step, ...]:
    """All steps, in order."""
    return (
        Step("functions", functions),
        Step("bodies", bodies),
        Step("blocks", blocks),
        Step("values", values),
        Step("instructions", instructions),
        Step("constants", constants),
        *[Step("operands", functools.partial(operands, which=which)) for which in range(PARTS)],
        Step("declarations", declarations),
        Step("braces", braces),
        Step("headers", headers),
    )


def plainer() -> tuple[Callable[[Module], Module], ...]:
    """Simplifications of the form: without debugging data, comments, dead code, and gaps in register numbers.

    Each may raise Refused.
    """
    rewriters = all_rewriters()
    return (*[_rewriting(rewriters[name]) for name in ("strip-debug", "dead-code", "renumber")], uncommented)


def _rewriting(rewriter: Rewriter) -> Callable[[Module], Module]:
    return lambda module: rewriter(module).module


def uncommented(module: Module) -> Module:
    """The module without comments between statements, each statement on its own line."""

    def bare(node: Node) -> Node:
        """Recursive; the parser bounds the nesting of blocks."""
        if isinstance(node, Function):
            return node.with_children([bare(child) for child in node.children])
        if isinstance(node, Block):
            inner = [bare(child) for child in node.children]
            return attrs.evolve(node, leading="\n", children=tuple(inner), close="\n}" if node.close else "")
        return node.with_leading("\n") if hasattr(node, "with_leading") else node

    return attrs.evolve(module, children=tuple([bare(child) for child in module.children]), trailing="\n")


def functions(module: Module) -> list[Edits]:
    """Removes a top-level statement, except those that every module must have."""
    return [{(i,): ()} for i, child in enumerate(module.children) if not isinstance(child, Version | Target | AddressSize)]


def bodies(module: Module) -> list[Edits]:
    """Removes all code of a function."""
    ret = parse_statement("\n\tret;")
    found: list[Edits] = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.body is not None and len(child.instructions) > 1:
            found.append({(i, 1): (child.body.with_children((ret,)),)})
    return found


def blocks(module: Module) -> list[Edits]:
    """Removes the instructions of a basic block, but not its label."""
    found: list[Edits] = []
    for routine in routines(module):
        for block in control_flow(routine).blocks:
            found.append({routine.where(i): () for i in range(block.start, block.end)})
    return found


def instructions(module: Module) -> list[Edits]:
    """Removes a statement other than a declaration: an instruction, a label, a list of targets."""
    return [{path: ()} for path, statement in _statements(module) if not isinstance(statement, Declaration | Block)]


ZEROS = {".f32": "0f00000000", ".f64": "0d0000000000000000"}


def values(module: Module) -> list[Edits]:
    """Replaces the result of an instruction by zero: dependent values stay defined, where undefined ones are not allowed."""
    names = resolve(module)
    found: list[Edits] = []
    for path, statement in _statements(module):
        if isinstance(statement, Instruction) and statement.operands and not _is_constant(statement):
            register = statement.operands[0]
            symbol = names.lookup(path, register.text) if isinstance(register, Name) else None
            if symbol is None or symbol.kind is not Kind.REGISTER or symbol.vector > 1 or symbol.type in (None, ".pred", ".b8", ".b128"):
                continue
            zero = parse_statement(f"\n\tmov{symbol.type} {register.text}, {ZEROS.get(symbol.type or '', '0')};")
            found.append({path: (zero,)})
    return found


def constants(module: Module) -> list[Edits]:
    """Replaces a register that always holds one constant by the constant."""
    names = resolve(module)
    uses: dict[tuple[int, str], list[Path]] = {}
    made: dict[tuple[int, str], list[tuple[Path, Instruction]]] = {}
    for path, statement in _statements(module):
        if not isinstance(statement, Instruction):
            continue
        scope = names.scope_of(path)
        for inner, name in names_in(statement):
            key = (id(scope.lookup(name.text)), name.text)
            if inner == (len(statement.children) - len(statement.operands),):
                made.setdefault(key, []).append((path, statement))
            else:
                uses.setdefault(key, []).append((*path, *inner))
    return [
        {path: (), **dict.fromkeys(uses.get(key, ()), (statement.operands[1],))}
        for key, ((path, statement), *others) in made.items()
        if not others and _is_constant(statement)
    ]


def _is_constant(statement: Instruction) -> bool:
    return statement.opcode.mnemonic == "mov" and statement.guard is None and isinstance(statement.operands[-1], Number)


def braces(module: Module) -> list[Edits]:
    """Removes a block, or its braces; inner blocks follow in the next round."""
    found: list[Edits] = []
    for i, child in enumerate(module.children):
        if isinstance(child, Function) and child.body is not None:
            found += [{(i, 1, j): inner.children} for j, inner in enumerate(child.body.children) if isinstance(inner, Block)]
    return found


def operands(module: Module, which: int = 0) -> list[Edits]:
    """Simplifies one part of each instruction: removes the guard, a modifier or an offset, or replaces a number or register by zero.

    An instruction may have several such parts; `which` selects one.
    """
    found: list[Edits] = []
    for path, statement in _statements(module):
        if isinstance(statement, Instruction):
            found += [{path: (new,)} for new in itertools.islice(_simpler(statement), which, which + 1)]
    return found


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
            yield instruction.with_operand(i, parse_operand(f"[{operand.base.text}]"))
        elif _may_be_zero(operand, i):
            yield instruction.with_operand(i, parse_operand("0"))


def _may_be_zero(operand: Node, i: int) -> bool:
    """Whether an operand is a nonzero number or a register. The first operand is the destination of most instructions."""
    if isinstance(operand, Number):
        return operand.text != "0" and operand.text[:2].lower() not in ("0f", "0d")
    return isinstance(operand, Name) and i > 0 and operand.text.startswith("%")


def declarations(module: Module) -> list[Edits]:
    """Removes an unused declaration."""
    names = resolve(module)
    used: set[str] = set()
    for _, statement in _statements(module):
        if not isinstance(statement, Declaration | Block):
            used.update([name.text for _, name in names_in(statement)])
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
    """Removes a parameter or directive of a function; only one for each function in a round."""
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
    """Parses the header of a function."""
    module = parse(text + "{}")
    found = module.children[0] if module.children else None
    return found.header if isinstance(found, Function) and not module.diagnostics else None


def _statements(module: Module) -> Iterator[tuple[Path, Node]]:
    """The statements in functions, with their paths in the module."""
    for i, child in enumerate(module.children):
        if isinstance(child, Function):
            for path, statement in child.statements():
                yield (i, *path), statement
