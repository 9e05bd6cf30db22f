"""Explains notes about wgmma and setmaxnreg in a ptxas log: the instruction that caused each, and its source line.

ptxas repairs or slows down what the manual forbids, and reports it in numbered notes such as C7514, which name a function, and sometimes a
line other than the faulty one. The rules find the fault; otherwise, the note is attached to the instruction that it mentions.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.events.effects import Action
from ptxkit.analyses.events.registers_in_flight import Kind
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.framework.rule import Facts, select
from ptxkit.analyses.framework.source_lines import source_lines
from ptxkit.analyses.protocols.wgmma.register_fences import wgmma
from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.memo import expression
from ptxkit.syntax import Module, Path

_NOTE = expression(r"\((?P<code>C75\d\d)\) (?P<text>.*)")
_FUNCTION = expression(r"function '?(?P<name>[\w$.%]+)'?")
_LINE = expression(r"around line (?P<line>\d+)")


@frozen
class Note:
    """A note of a ptxas log. `line` is 0 if it names none."""

    code: str
    text: str
    function: str
    line: int


_CAUSES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("warpgroup.arrive is injected", ("W001", "W002")),
    ("warpgroup.wait is injected", ("W003", "W004", "W005")),
    ("reading accumulator registers", ("W003", "W004", "W005")),
    ("defining accumulator registers", ("W003", "W004", "W005", "W002")),
    ("setmaxnreg", ("C011",)),
    ("serialized", ("W001", "W002", "W003", "W004", "W005", "W007")),
)
"""The rules that find the cause of a note, by words in it: note numbers change between releases."""


def notes(log: str) -> tuple[Note, ...]:
    """The distinct notes with numbers from C7500 to C7599 in a log."""
    found: dict[Note, None] = {}
    for line in log.splitlines():
        match = _NOTE.search(line)
        if match is None:
            continue
        function, number = _FUNCTION.search(match["text"]), _LINE.search(match["text"])
        found[Note(match["code"], match["text"].strip(), function["name"] if function else "", int(number["line"]) if number else 0)] = None
    return tuple(found)


def explain(module: Module, log: str) -> tuple[Diagnostic, ...]:
    """The cause of each note of a log about this module, as informational findings. Notes about other functions are left out."""
    facts = Facts(module)
    by_name = {routine.name: routine for routine in facts.routines}
    found: dict[str, list[Diagnostic]] = {}
    explained = []
    for note in notes(log):
        rules = next((rules for words, rules in _CAUSES if words in note.text), ())
        routine = by_name.get(note.function)
        if routine is None:
            continue
        for rule in rules:
            if rule not in found:
                found[rule] = list(_applied(facts, rule))
        causes = [one for rule in rules for one in found[rule] if one.function == note.function and one.severity is not Severity.INFO]
        if note.line:
            causes.sort(key=lambda one: min(abs(span.line - note.line) for span in (one.span, *[related.span for related in one.related])))
            causes = causes[:1]
        explained += [_because(note, cause) for cause in causes] or [_without_cause(facts, note, routine)]
    return tuple(explained)


def _applied(facts: Facts, rule: str) -> Iterator[Diagnostic]:
    try:
        chosen = select([rule])
    except ValueError:
        return
    for one in chosen:
        yield from one.check(facts)


def _because(note: Note, cause: Diagnostic) -> Diagnostic:
    text = f"{note.code}: {cause.message}"
    return attrs.evolve(
        cause, severity=Severity.INFO, message=text, notes=(f"ptxas: {note.text}", f"see {cause.rule} {cause.name}", *cause.notes)
    )


def _without_cause(facts: Facts, note: Note, routine: Routine) -> Diagnostic:
    """A finding for a note without a known cause."""
    at = _subject(facts, note, routine)
    where: Path = routine.path if at < 0 else routine.where(at)
    source = source_lines(routine)[at] if at >= 0 else ""
    return Diagnostic(
        note.code,
        "ptxas-note",
        Severity.INFO,
        f"{note.code}: ptxas reports this, but no rule does",
        facts.index.span(where),
        facts.module.path,
        routine.name,
        (f"ptxas: {note.text}", *([f"from {source}"] if source else [])),
    )


def _subject(facts: Facts, note: Note, routine: Routine) -> int:
    """The instruction that a note mentions: of its kind, the nearest to its line, otherwise the first; -1 if there is none."""
    if "setmaxnreg" in note.text:
        own = [i for i, bound in enumerate(bindings(routine)) if isinstance(bound, Bound) and "setmaxnreg" in bound.effects]
    else:
        of = wgmma(routine)
        steps = [step for block in of.steps for step in block] if of is not None else []
        wanted = Action.WAIT if "wait is injected" in note.text else Action.OPEN
        own = [step.instruction for step in steps if step.effect is not None and step.effect.action is wanted]
        own = own or [step.instruction for step in steps if step.kind is Kind.OPEN]
    if not own:
        return -1
    return min(own, key=lambda i: abs(facts.index.span(routine.where(i)).line - note.line)) if note.line else own[0]
