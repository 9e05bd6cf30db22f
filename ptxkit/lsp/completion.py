"""Completion at the cursor. The statement being typed is incomplete, so it is processed as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ptxkit.frozen import frozen
from ptxkit.isa.directives import directives
from ptxkit.isa.explain import forms_with
from ptxkit.isa.forms import SPACES, Form
from ptxkit.isa.opcodes import flow_of, split_opcode
from ptxkit.isa.registers import special_registers
from ptxkit.isa.table import forms, mnemonics
from ptxkit.lsp.document import Document
from ptxkit.memo import expression
from ptxkit.names import Kind, Scope, Symbol

MOST = 400
_STATEMENT = expression(r"(?:.*[;{}]|\s*[\w$%]+:)?\s*(?:@!?\s*[\w$%]+\s+)?(?P<rest>\S.*|)$", re.ASCII)
_OPCODE = expression(r"(?P<opcode>[a-z][\w.:]*)$", re.ASCII)
_GUARD = expression(r"(?:^|[;{}])\s*@!?\s*(?P<word>[\w$%]*)$", re.ASCII)
_WORD = expression(r"[\w$%.]*$", re.ASCII)


@frozen
class Candidate:
    """A text that can replace the word begun at the cursor; `kind` is that of a symbol, or of another kind of word."""

    text: str
    kind: str
    detail: str
    length: int
    """Number of characters before the cursor that it replaces."""


def complete(document: Document, offset: int, known: Document | None = None) -> tuple[Candidate, ...]:
    """The candidates at an offset: modifiers that some form still accepts, mnemonics, directives, names in scope, special registers.

    `known` is a document, possibly slightly older, that supplies the names.
    """
    known = known or document
    start = document.text.rfind("\n", 0, offset) + 1
    before = document.text[start:offset]
    if "//" in before:
        return ()
    guard = _GUARD.search(before)
    if guard is not None:
        return _names(known.scope_at(start), guard["word"], (".pred",))
    statement = _STATEMENT.match(before)
    rest = statement["rest"] if statement is not None else before
    if rest.startswith("."):
        word = _WORD.search(rest)
        return _directives(word[0] if word else "")
    opcode = _OPCODE.fullmatch(rest)
    if opcode is not None:
        return _modifiers(rest) if "." in rest else _mnemonics(rest)
    if not rest:
        return _mnemonics("")
    return _operands(known, start, rest)


def prepare() -> None:
    """Loads the tables that are independent of the text, so that the first request does not wait for them."""
    _mnemonics("")
    _directives("")
    special_registers()


def _mnemonics(word: str) -> tuple[Candidate, ...]:
    return tuple([Candidate(name, "opcode", _summary(name), len(word)) for name in sorted(mnemonics()) if name.startswith(word)])


@cache
def _summary(mnemonic: str) -> str:
    found = forms(mnemonic)
    return found[0].summary if found else ""


def _modifiers(opcode: str) -> tuple[Candidate, ...]:
    """The modifiers that some form of the mnemonic accepts in addition to the present ones, the one being typed excluded."""
    whole, _, begun = opcode.rpartition(".")
    there = split_opcode(whole)[1]
    found: dict[str, str] = {}
    for form in forms_with(whole):
        for modifier in _free(form, there):
            if modifier[1:].startswith(begun):
                found.setdefault(modifier, form.syntax)
    return tuple([Candidate(modifier, "modifier", syntax, len(begun) + 1) for modifier, syntax in found.items()])


def _free(form: Form, there: tuple[str, ...]) -> Iterator[str]:
    """The choices of a form's slots that none of these modifiers fills, in the form's order."""
    taken: set[int] = set()
    for modifier in there:
        first = next((at for at in form.takes.get(modifier, ()) if at not in taken), None)
        if first is not None:
            taken.add(first)
    last = max(taken, default=-1)
    # slots after the last modifier first: that is where the user types
    for at in [*range(last + 1, len(form.slots)), *range(last + 1)]:
        slot = form.slots[at]
        if at not in taken:
            yield from [choice.modifier for choice in slot.choices if choice.modifier]


def _directives(word: str) -> tuple[Candidate, ...]:
    known = dict.fromkeys((".reg", *sorted(SPACES)), "state space") | {d.name: d.summary for d in directives().values()}
    return tuple([Candidate(name, "directive", said, len(word)) for name, said in known.items() if name.startswith(word or ".")])


def _operands(document: Document, start: int, rest: str) -> tuple[Candidate, ...]:
    word = _WORD.search(rest)
    begun = word[0] if word is not None else ""
    scope = document.scope_at(start)
    flow = flow_of(rest.split()[0])
    if flow in ("branch", "bra"):
        return _names(scope, begun, kinds=(Kind.LABEL,))
    found = _names(scope, begun)
    special = [
        Candidate(name, "special", one.summary, len(begun)) for name, one in special_registers().items() if name.startswith(begun or " ")
    ]
    return (*found, *special)[:MOST]


def _names(scope: Scope, begun: str, types: tuple[str, ...] = (), kinds: tuple[Kind, ...] = ()) -> tuple[Candidate, ...]:
    """The names visible in a scope with this prefix, inner ones first; for a family, the registers whose number is begun."""
    found: dict[str, Candidate] = {}
    at: Scope | None = scope
    while at is not None:
        for name, symbol in _spelled(at, begun):
            if (not types or symbol.type in types) and (not kinds or symbol.kind in kinds):
                found.setdefault(name, Candidate(name, symbol.kind.value, " ".join(filter(None, (symbol.space, symbol.type))), len(begun)))
            if len(found) >= MOST:
                return tuple(found.values())
        at = at.parent
    return tuple(found.values())


def _spelled(scope: Scope, begun: str) -> Iterator[tuple[str, Symbol]]:
    for name, symbol in scope.symbols.items():
        if name.startswith(begun):
            yield name, symbol
    for stem, family in scope.ranges.items():
        for symbol in family:
            if stem.startswith(begun):
                yield from [(f"{stem}{i}", symbol) for i in range(min(symbol.count or 0, 10))]
            elif begun.startswith(stem) and begun[len(stem) :].isdecimal():
                yield from [(f"{stem}{i}", symbol) for i in range(min(symbol.count or 0, 100_000)) if str(i).startswith(begun[len(stem) :])]
