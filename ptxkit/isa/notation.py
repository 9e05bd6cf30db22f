"""The notation of the instruction set: `.isa` text to `Form`s. `docs/isa-notation.md` describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ptxkit.isa.forms import SPACES, Atom, Choice, Constraint, Form, NotationError, OperandRule, Slot
from ptxkit.isa.operand_notation import operand_variants
from ptxkit.isa.statements import MODIFIER, Body, read_line
from ptxkit.isa.types import is_type

_ANYTHING = (OperandRule((), "any"),)


def parse_entries(text: str, file: str = "<isa>", first_line: int = 1) -> Iterator[Form]:
    """The forms of `.isa` text, entry by entry. `first_line` is the line of `file` at which the text starts.

    Raises NotationError with file and line.
    """
    heads: list[tuple[int, str]] = []
    body: list[tuple[int, str]] = []
    for number, line in _logical_lines(text, first_line):
        if line[0] in " \t":
            if not heads:
                raise NotationError(f"{file}:{number}: a form line at column 0 is expected before {line.strip()!r}")
            body.append((number, line.strip()))
            continue
        if body:
            yield from _entry(heads, body, file)
            heads, body = [], []
        heads.append((number, line))
    if heads:
        yield from _entry(heads, body, file)


def _logical_lines(text: str, first_line: int) -> Iterator[tuple[int, str]]:
    """The lines without comments and blank lines, with continuation lines joined."""
    pending: tuple[int, str] | None = None
    indent = 0
    for number, raw in enumerate(text.splitlines(), first_line):
        line = _uncommented(raw)
        if not line:
            continue
        depth = len(line) - len(line.lstrip())
        if pending and depth and pending[1][0] in " \t" and depth > indent:
            pending = (pending[0], f"{pending[1]} {line.strip()}")
            continue
        if pending:
            yield pending
        pending, indent = (number, line), depth
    if pending:
        yield pending


def _uncommented(line: str) -> str:
    stripped = line.strip()
    if stripped.startswith("#"):
        return ""
    if "#" not in line or stripped.startswith('"'):
        return line.rstrip()
    return re.split(r"\s#(?:\s|$)", line, maxsplit=1)[0].rstrip()


def _entry(heads: list[tuple[int, str]], lines: list[tuple[int, str]], file: str) -> Iterator[Form]:
    body = Body()
    for number, line in lines:
        try:
            read_line(body, line)
        except ValueError as error:
            raise NotationError(f"{file}:{number}: {error}") from None
    for number, head in heads:
        try:
            yield _form(head, body, file, number, heads[0][0])
        except ValueError as error:
            raise NotationError(f"{file}:{number}: {error}") from None


def _form(head: str, body: Body, file: str, line: int, entry: int) -> Form:
    opcode, _, operand_text = head.partition(" ")
    dot = re.search(r"[.{]", opcode)
    mnemonic = opcode[: dot.start()] if dot else opcode
    if not re.fullmatch(r"[a-z]\w*", mnemonic):
        raise ValueError(f"a mnemonic is expected, not {mnemonic!r}")
    slots, constraints = _slots(opcode[len(mnemonic) :], body)
    variants = operand_variants(operand_text.strip())
    names = {name for variant in variants for item in variant for name in item.names()}
    missing = names - body.rules.keys()
    if missing and body.modelled:
        raise ValueError(f"a line '{min(missing)}: ROLE …' is expected for that operand")
    rules = {name: tuple(body.rules.get(name, _ANYTHING)) for name in names}
    _check_slot_names(rules, {slot.name for slot in slots}, body)
    return Form(
        mnemonic=mnemonic,
        syntax=" ".join(head.split()),
        slots=slots,
        variants=variants,
        rules=rules,
        constraints=(*body.constraints, *constraints),
        needs=tuple(body.needs),
        converges=tuple(body.converges),
        memory=tuple(body.memory),
        order=tuple(body.order),
        scope=tuple(body.scope),
        asynchronous=tuple(body.asynchronous),
        completes=tuple(body.completes),
        barrier=tuple(body.barrier),
        fragments=tuple(body.fragments),
        accumulates=tuple(body.accumulates),
        threads=tuple(body.threads),
        members=tuple(body.members),
        lane=tuple(body.lane),
        carry=tuple(body.carry),
        flow=tuple(body.flow),
        effects=tuple(body.effects),
        uniform=tuple(body.uniform),
        computes=tuple([c for c in body.computes if c.what.target in names]),
        copies=body.copies,
        deprecated=tuple(body.deprecated),
        removed=tuple(body.removed),
        modelled=body.modelled,
        summary=body.summary,
        section=body.section,
        examples=tuple(body.examples),
        file=file,
        line=line,
        entry=entry,
    )


def _slots(text: str, body: Body) -> tuple[tuple[Slot, ...], list[Constraint]]:
    """The slots of `.sync{.x}.type`, and the constraints of braces around several of them: all or none, outer before inner."""
    slots: list[Slot] = []
    constraints: list[Constraint] = []
    groups: list[list[str]] = []
    for token in re.findall(r"\.[\w:]+|[{}]|.", text):
        if token == "{":
            groups.append([])
            continue
        if token == "}":
            if not groups:
                raise ValueError(f"'{{' is expected before '}}' in {text!r}")
            group = groups.pop()
            outer = groups[-1] if groups else []
            for name in group[1:]:
                constraints.append(Constraint((_has(group[0]),), (_has(name),)))
                constraints.append(Constraint((_has(name),), (_has(group[0]),)))
            if outer and group:
                constraints.append(Constraint((_has(group[0]),), (_has(outer[0]),)))
            continue
        if not MODIFIER.fullmatch(token):
            raise ValueError(f"a modifier as .name or {{.name}} is expected, not {token!r}, in {text!r}")
        choices = body.slots.get(token)
        if choices is not None and not choices:
            raise ValueError(f"alternatives are expected for {token}")
        if choices is not None and any(s.name == token for s in slots):
            raise ValueError(f"{token} stands twice; a slot of another name is expected")
        slots.append(Slot(token, tuple(choices or (Choice(token),)), bool(groups), choices is None))
        if groups:
            groups[-1].append(token)
    if groups:
        raise ValueError(f"'}}' is expected at the end of {text!r}")
    return tuple(slots), constraints


def _has(name: str) -> Atom:
    return Atom("has", "", (name,), False)


def _check_slot_names(rules: dict[str, tuple[OperandRule, ...]], known: set[str], body: Body) -> None:
    """A type, width or space that names a slot must name one of this form, or be a type or space."""
    for name, alternatives in rules.items():
        for rule in alternatives:
            if rule.when:
                continue
            for kind in rule.types:
                if kind.name not in known and not is_type(kind.name):
                    raise ValueError(f"operand {name}: a type or a slot of this form is expected, not {kind.name!r}")
                if kind.width and kind.width.slot and kind.width.slot not in known | body.slots.keys():
                    raise ValueError(f"operand {name}: a slot is expected as width, not {kind.width.slot!r}")
            for space in rule.spaces:
                if space not in known | SPACES | body.slots.keys():
                    raise ValueError(f"operand {name}: a state space or a slot is expected, not {space!r}")
