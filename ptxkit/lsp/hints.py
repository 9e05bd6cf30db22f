"""Inlay hints at line ends: registers at block heads, uniformity of guards, shared-memory addresses."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.registers.pressure import pressure
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import spoken
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import Level, uniformity
from ptxkit.lsp.document import Document
from ptxkit.syntax import Address, Name, Node

SMALL = 500
"""Smaller functions are analyzed on request; larger ones have hints once the rules are finished."""
MOST_VALUE = 60
_OPAQUE = frozenset(("value", "phi", "join"))


def hints(document: Document, start: int, end: int) -> tuple[tuple[int, str], ...]:
    """The hints between two offsets: position and text of each."""
    found: list[tuple[int, str]] = []
    for routine in document.routines:
        at = document.index.offset(routine.path)
        if at > end or at + len(routine.function.text) < start or not (document.is_analysed or len(routine.instructions) < SMALL):
            continue
        for i in _between(document, routine, start, end):
            said = " · ".join(_said(routine, i))
            if said:
                instruction = routine.instructions[i]
                found.append((document.index.offset(routine.where(i)) + len(instruction.body_text), said))
    return tuple(found)


def _between(document: Document, routine: Routine, start: int, end: int) -> range:
    """The instructions between two offsets."""
    offset = document.index.offset
    everything = range(len(routine.instructions))
    first = bisect.bisect_left(everything, start, key=lambda i: offset(routine.where(i)))
    return range(first, bisect.bisect_right(everything, end, key=lambda i: offset(routine.where(i))))


def _said(routine: Routine, i: int) -> Iterator[str]:
    flow = control_flow(routine)
    block = flow.block_of[i]
    if flow.blocks[block].start == i:
        count = pressure(routine).entering[block]
        yield f"{count} register{'s' * (count != 1)} live"
    if block not in flow.reachable:
        return
    if routine.instructions[i].guard is not None:
        verdict = uniformity(routine).guard(i)
        if verdict.level is not Level.THREAD:
            yield f"uniform in each {verdict.level.word}"
        elif verdict.refuted is not None:
            yield "divergent"
    address = _shared_address(routine, i)
    if address:
        yield f"[{address}]"


def _shared_address(routine: Routine, i: int) -> str:
    """The known values of the registers in a shared-memory address."""
    instruction = routine.instructions[i]
    if ".shared" not in instruction.opcode.text:
        return ""
    known, form = registers(routine), ssa(routine)
    for operand in instruction.operands:
        name = _register(operand) if isinstance(operand, Address) else None
        numbers = known.named(name) if name is not None else ()
        if len(numbers) != 1 or numbers[0] not in known.reads[i]:
            continue
        term = values(routine).of(form.read(i, numbers[0]))
        text = spoken(term)
        if term.operator not in _OPAQUE and len(text) <= MOST_VALUE:
            return text
    return ""


def _register(node: Node) -> str | None:
    """The first name in an operand."""
    stack = [node]
    while stack:
        piece = stack.pop()
        if isinstance(piece, Name):
            return piece.text
        stack += reversed(piece.children)
    return None
