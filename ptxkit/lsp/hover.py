"""Hover texts, as Markdown."""

from __future__ import annotations

import bisect
import struct
from collections.abc import Iterable

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import Numbers, registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import spoken
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import Level, uniformity
from ptxkit.isa.binding import Bound
from ptxkit.isa.directives import directives
from ptxkit.isa.explain import forms_with
from ptxkit.isa.registers import special_register
from ptxkit.isa.requirements import Requirement
from ptxkit.isa.targets import targets, version_text
from ptxkit.lsp.document import Document
from ptxkit.names import Kind, Symbol
from ptxkit.origins import Origins, excerpt, frames, source_file
from ptxkit.syntax import File, Function, Instruction, Loc, Name, Node, Number, Opcode, Path, Selector, Statement, Target

_OPAQUE = frozenset(("value", "phi", "join"))
MOST_LINES = 8
MOST_VALUE = 120
SLOW = 4000
"""For functions with at least this many instructions, facts are shown only once they are available."""


def hover(document: Document, offset: int) -> tuple[int, int, str] | None:
    """Start, end and text for the node at an offset; None if there is nothing to show."""
    path, node = document.node_at(offset)
    if not path:
        return _statement(document, document.index.path_at(min(offset, max(len(document.text) - 1, 0))))
    start = document.index.offset(path)
    said = None
    if isinstance(node, Opcode):
        said = _opcode(document, path, node)
    elif isinstance(node, Name):
        found = document.symbol_at(offset)
        if found is not None:
            said = _symbol(document, path, found[1].text, found[2])
        else:
            said = _special(document, path, node)
    elif node.text in directives():
        directive = directives()[node.text]
        said = f"**{directive.name}** — {directive.summary} (ISA {directive.section})\n\n{_needs(directive.needs)}"
    elif isinstance(node, Selector) and path:
        said = _special(document, path, node)
    elif isinstance(node, Number):
        said = _number(node.text)
    if said is None:
        parent = document.module.at(path[:-1])
        if isinstance(parent, Target) and node.text in targets():
            said = _target(node.text)
        else:
            return _statement(document, path)
    return start, start + len(node.text), said


def _statement(document: Document, path: Path) -> tuple[int, int, str] | None:
    """The hover text of a directive."""
    while path and not isinstance(document.module.at(path), Statement):
        path = path[:-1]
    node = document.module.at(path)
    if isinstance(node, Instruction) or not isinstance(node, Statement):
        return None
    start = document.index.offset(path)
    text = node.body_text
    if isinstance(node, Loc):
        said = _origin(document, start)
    elif isinstance(node, File):
        found = source_file(node.name, document.path)
        said = f"Source file {node.index}: `{node.name}`" + (f", found as `{found}`." if found else ", not found.")
    else:
        directive = directives().get(text.split()[0]) if text.strip() else None
        if directive is None:
            return None
        said = f"**{directive.name}** — {directive.summary} (ISA {directive.section})\n\n{_needs(directive.needs)}"
    return start, start + len(text), said


def _origin(document: Document, offset: int) -> str:
    """The source line of a `.loc`, with the calls around it."""
    origin = Origins(document.module, document.index).at(offset)
    if origin is None:
        return "What follows comes from no line of the source."
    said: list[str] = []
    for frame in frames(origin):
        text = excerpt(frame, document.path)
        said.append(f"{'inlined at ' if said else ''}`{frame.path}:{frame.line}`" + (f"\n```\n{text}\n```" if text else ""))
    return "\n\n".join(said)


def _number(text: str) -> str | None:
    """The value of a constant that is not plain decimal."""
    if text[:2] in ("0f", "0F", "0d", "0D"):
        size, form = (8, ">f") if text[1] in "fF" else (16, ">d")
        digits = text[2:]
        return f"`{text}` = {struct.unpack(form, bytes.fromhex(digits))[0]!r}" if len(digits) == size else None
    try:
        value = int(text.rstrip("U"), 0)
    except ValueError:
        return None
    return f"`{text}` = {value:,} = {value:#x}" if value > 9 else None


def _target(name: str) -> str:
    target = targets()[name]
    renamed = f" Renamed to `{target.renamed}`." if target.renamed else ""
    return f"**{name}** — from `.version {target.since[0]}.{target.since[1]}`. {target.portability}{renamed}"


def _opcode(document: Document, path: Path, node: Opcode) -> str | None:
    instruction = document.module.at(path[:-1])
    routine = _routine(document, path)
    if routine is None or not isinstance(instruction, Instruction):
        return None
    bound = routine.binder.bound(instruction, document.names.shaper(document.names.scope_of(path)))
    if not isinstance(bound, Bound):
        forms = forms_with(node.mnemonic)
        known = "".join(f"\n* `{form.syntax}`" for form in forms[:MOST_LINES])
        return f"**{node.mnemonic}** — {bound.message}" + (f"\n\nForms:{known}" if known else "")
    form = bound.form
    parts = [
        f"**{form.mnemonic}** — {form.summary} (ISA {form.section.lstrip('§ ')})",
        f"```ptx\n{form.syntax}\n```",
        _needs(bound.requirement),
    ]
    if bound.converges is not None:
        together = f"Executed by a whole {Level[bound.converges.level.upper()].word} together"
        parts.append(together + (", with no thread elsewhere (`.aligned`)." if bound.converges.aligned else "."))
    operands = [
        f"* `{o.name}`: {_ROLES.get(o.role, o.role)}{' ' + ' or '.join(f'`{t}`' for t in o.types) if o.types else ''}"
        for o in bound.operands
    ]
    if operands:
        parts.append("\n".join(operands))
    return "\n\n".join(parts)


_ROLES = {
    "r": "read",
    "w": "written",
    "rw": "read and written",
    "addr": "an address",
    "imm": "a constant",
    "label": "a label",
    "func": "a function",
    "list": "a list",
    "sreg": "a special register",
    "sym": "a name",
    "any": "anything",
}


def _needs(requirement: Requirement) -> str:
    """A requirement as text."""
    found = [f"`{one.target}` from `.version {version_text(one.version)}`" for one in requirement.alternatives()]
    return f"Needs {' or '.join(found)}." if found else "No known target has it."


def _special(document: Document, path: Path, node: Node) -> str | None:
    name = node.text
    parent = document.module.at(path[:-1])
    if special_register(parent.text.strip()) is not None:
        name = parent.text.strip()
    found = special_register(name)
    if found is None:
        return None
    shape = f" .v{found.components}" if found.components > 1 else ""
    same = "Each thread has its own." if found.uniform == "thread" else f"The same for a whole {found.uniform}."
    again = " Two reads may differ." if found.volatile else ""
    head = f"**{name}** `{shape.strip()}{' or '.join(found.types)}` — {found.summary} (ISA {found.section})"
    return f"{head}\n\n{same}{again}\n\n{_needs(found.needs)}"


def _symbol(document: Document, path: Path, name: str, symbol: Symbol) -> str:
    index = document.index
    line = index.line_column(index.offset(symbol.path))[0]
    if symbol.kind is Kind.FUNCTION:
        return _function(document, symbol)
    if symbol.kind is Kind.LABEL:
        return _label(document, path, name, line)
    family = f", one of `{symbol.name}<{symbol.count}>`" if symbol.count is not None else ""
    words = [
        symbol.linkage,
        symbol.space,
        f".align {symbol.align}" if symbol.align else "",
        f".v{symbol.vector}" if symbol.vector > 1 else "",
        symbol.type,
    ]
    sizes = "".join(f"[{'' if size is None else size}]" for size in symbol.dimensions)
    said = [
        f"```ptx\n{' '.join(filter(None, words))} {name}{sizes}\n```",
        f"{symbol.kind.value.capitalize()}, declared in line {line}{family}.",
    ]
    if symbol.kind is Kind.REGISTER:
        said += _register(document, path, name)
    return "\n\n".join(said)


def _function(document: Document, symbol: Symbol) -> str:
    function = symbol.declares
    assert isinstance(function, Function) or function is not None
    if not isinstance(function, Function):
        return f"`{symbol.name}`"
    header = " ".join(function.header.text.split())
    said = [f"```ptx\n{header}\n```"]
    routine = next((routine for routine in document.routines if routine.function is function), None)
    if routine is None:
        said.append("Declared, not defined here.")
    else:
        flow = control_flow(routine)
        said.append(
            f"{len(routine.instructions):,} instructions, {len(flow.blocks):,} basic blocks, {len(registers(routine).table):,} registers."
        )
    return "\n\n".join(said)


def _label(document: Document, path: Path, name: str, line: int) -> str:
    routine = _routine(document, path)
    said = f"Label, line {line}."
    if routine is None:
        return said
    starts = [i for (_, label), i in routine.labels.items() if label == name]
    flow = control_flow(routine)
    if len(starts) != 1 or starts[0] >= len(routine.instructions):
        return said
    block = flow.blocks[flow.block_of[starts[0]]]
    said += f" Basic block {block.index}, {block.end - block.start} instructions."
    before = [_line(document, routine, flow.blocks[other].end - 1) for other in block.predecessors]
    return said + (f" Comes from line {_lines(before)}." if before else " Nothing leads here.")


def _register(document: Document, path: Path, name: str) -> list[str]:
    routine, i = _instruction_at(document, path)
    if routine is None or not (document.is_warm or len(routine.instructions) < SLOW):
        return []
    known = registers(routine)
    numbers = known.named(name)
    writes = [_line(document, routine, at) for at, written in enumerate(known.writes) if not set(written).isdisjoint(numbers)]
    reads = [_line(document, routine, at) for at, read in enumerate(known.reads) if not set(read).isdisjoint(numbers)]
    said = [f"Written in line {_lines(writes) or '—'}; read in line {_lines(reads) or '—'}.", _live(document, routine, numbers)]
    if i is not None and len(numbers) == 1 and (document.is_analysed or len(routine.instructions) < SLOW):
        said += _value(routine, i, numbers[0])
    return said


def _live(document: Document, routine: Routine, numbers: Numbers) -> str:
    """The lines in which a register is live, as ranges; adjacent blocks share one range."""
    live, flow = liveness(routine), control_flow(routine)
    wanted = sum(1 << number for number in set(numbers))
    ranges: list[list[int]] = []
    for block in flow.blocks:
        if not (live.before[block.index] | live.after[block.index]) & wanted and not _written_in(routine, block.start, block.end, numbers):
            continue
        alive = [(at, min(at + 1, block.end - 1)) for at, after in live.points(block.index) if after & wanted]
        if live.before[block.index] & wanted:
            alive.append((block.start, block.start))
        for first, last in sorted(alive):
            if ranges and first <= ranges[-1][1] + 1:
                ranges[-1][1] = max(last, ranges[-1][1])
            else:
                ranges.append([first, last])
    lines = [(_line(document, routine, first), _line(document, routine, last)) for first, last in ranges]
    spoken_ranges = [f"{a}–{b}" if a != b else f"{a}" for a, b in lines]
    more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
    return f"Live in line {', '.join(spoken_ranges[:MOST_LINES])}{more}." if lines else "Never live: what is written is not read."


def _written_in(routine: Routine, start: int, end: int, numbers: Numbers) -> bool:
    writes = registers(routine).writes
    return any(not set(writes[i]).isdisjoint(numbers) for i in range(start, end))


def _value(routine: Routine, i: int, number: int) -> list[str]:
    """The known value of a register at an instruction, and the threads for which it is uniform."""
    flow, form = control_flow(routine), ssa(routine)
    block = flow.block_of[i]
    if block not in flow.reachable:
        return ["Control never reaches this instruction."]
    known = registers(routine)
    value = form.written(i, number) if number in known.writes[i] else form.read(i, number) if number in known.reads[i] else -1
    if value < 0:
        return []
    term = values(routine).of(value)
    text = spoken(term)
    found = uniformity(routine)
    level = found.used(value, block)
    sharing = "Threads may differ." if level is Level.THREAD else f"Uniform: the same in all threads of a {level.word} in one iteration."
    return [*([f"Value: `{text}`"] if len(text) <= MOST_VALUE and term.operator not in _OPAQUE else []), sharing]


def _routine(document: Document, path: Path) -> Routine | None:
    return next((routine for routine in document.routines if path[: len(routine.path)] == routine.path), None)


def _instruction_at(document: Document, path: Path) -> tuple[Routine | None, int | None]:
    """The function around a node, and the index of its instruction."""
    routine = _routine(document, path)
    if routine is None:
        return None, None
    own = path[len(routine.path) :]
    at = bisect.bisect_right(routine.paths, own) - 1
    return routine, at if at >= 0 and own[: len(routine.paths[at])] == routine.paths[at] else None


def _line(document: Document, routine: Routine, i: int) -> int:
    return document.index.line_column(document.index.offset(routine.where(i)))[0]


def _lines(found: Iterable[int]) -> str:
    lines = sorted(set(found))
    more = f" and {len(lines) - MOST_LINES} more" if len(lines) > MOST_LINES else ""
    return ", ".join(map(str, lines[:MOST_LINES])) + more
