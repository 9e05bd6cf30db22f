"""The notation of the instruction set: `.isa` text to `Form`s. `docs/isa-notation.md` describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from typing import Any, Generic, TypeVar

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.requirements import Needs, TargetNeed, parse_needs
from ptxkit.isa.targets import Version, parse_version
from ptxkit.isa.types import is_type

SPACES = frozenset(
    (".const", ".global", ".local", ".param", ".param::entry", ".param::func", ".shared", ".shared::cta", ".shared::cluster", ".generic")
)
ROLES = frozenset(("r", "w", "rw", "addr", "imm", "label", "func", "list", "sreg", "sym", "any"))


class NotationError(Exception):
    """An `.isa` file does not follow the notation. The text says where and what was expected."""


@frozen
class Choice:
    """One alternative of a slot, and what it needs."""

    modifier: str
    needs: Needs | None = None


@frozen
class Slot:
    """The position of one modifier. A literal modifier is a slot named after its only choice."""

    name: str
    choices: tuple[Choice, ...]
    optional: bool
    literal: bool


@attrs.frozen(cache_hash=True)
class Atom:
    """One test of a condition.

    `kind` is "has" (one of `values` is among the modifiers, or names a filled slot), "slot" (slot `subject` holds one of `values`), "given"
    (operand `subject` is present) or "is" (operand `subject` is written as one of `values`).
    """

    kind: str
    subject: str
    values: tuple[str, ...]
    negated: bool


Condition = tuple[Atom, ...]


@frozen
class Width:
    """The number of elements of a vector operand: a number, or the number in a slot's value, multiplied or divided by another."""

    count: int = 0
    slot: str = ""
    letter: str = ""
    times: int = 1
    over: int = 1


@frozen
class OperandType:
    """A type or a type-valued slot, and for a vector its width."""

    name: str
    width: Width | None = None


@frozen
class Limits:
    """The constants that an operand accepts."""

    least: float | None = None
    most: float | None = None
    above: bool = False
    """Whether `least` itself is excluded."""
    values: tuple[int, ...] = ()
    multiple: int = 1

    def allow(self, value: float) -> bool:
        """Whether a constant is within these limits."""
        if self.values and value not in self.values:
            return False
        if self.least is not None and (value < self.least or (self.above and value == self.least)):
            return False
        if self.most is not None and value > self.most:
            return False
        return self.multiple == 1 or value % self.multiple == 0

    def __str__(self) -> str:
        if self.values:
            return " or ".join(map(str, self.values))
        least = "" if self.least is None else f"{'more than' if self.above else 'at least'} {self.least:g}"
        most = "" if self.most is None else f"at most {self.most:g}"
        span = f"{self.least:g} to {self.most:g}" if least and most and not self.above else " and ".join(filter(None, (least, most)))
        multiple = f"a multiple of {self.multiple}" if self.multiple > 1 else ""
        return ", ".join(filter(None, (span, multiple)))


@frozen
class OperandRule:
    """What an operand of a given name accepts, if `when` holds."""

    when: Condition
    role: str
    types: tuple[OperandType, ...] = ()
    how: str = "same"
    spaces: tuple[str, ...] = ()
    align: str = ""
    constants: bool = True
    constant_kind: str = ""
    limits: Limits | None = None
    sink: bool = False
    negatable: bool = False
    special: bool = False
    symbol: bool = False
    narrow: bool = False
    indexed: bool = False
    written_out: bool = False
    """It must be written `{…}`, for any width."""

    @property
    def writes(self) -> bool:
        return self.role in ("w", "rw")


@frozen
class Item:
    """One operand as the form line writes it: `kind` is plain (it has a name), address, pair, vector or list (of `parts`)."""

    kind: str
    name: str = ""
    parts: tuple[Item, ...] = ()

    def names(self) -> Iterator[str]:
        """The names in it, in order."""
        if self.kind == "plain":
            yield self.name
        for part in self.parts:
            yield from part.names()


Variant = tuple[Item, ...]
_ANYTHING = (OperandRule((), "any"),)


T = TypeVar("T")


@frozen
class Conditional(Generic[T]):
    """A statement of the body with its condition."""

    when: Condition
    what: T


@frozen
class Constraint:
    """If `when` holds, `then` must hold too; without `then`, `when` must not hold."""

    when: Condition
    then: Condition | None


@frozen
class Converges:
    """The threads that must execute the instruction together: `level` is warp, warpgroup, cta or cluster."""

    level: str
    aligned: bool
    whole: bool = False
    """Whether no thread of the group may have exited."""


@frozen
class Memory:
    """Memory accessed through an operand. `order` and `scope` name a slot, or are the fixed word itself, or empty."""

    access: str
    operand: str
    is_async: bool
    proxy: str
    order: str
    scope: str
    row: int = 0
    """For collective accesses, the minimum bytes at each address; 0 if unspecified."""
    lanes: Width | None = None
    """The number of lanes, starting from lane 0, that hold such an address; None for all."""


@frozen
class Async:
    """Opens, commits or waits for asynchronous groups of a kind; `operand` names the count, if any.

    `signal`: the operations in flight signal their completion at the barrier that `operand` names.
    """

    group: str
    action: str
    operand: str
    reading: bool = False
    """For a wait: only until the operations have read their sources."""


@frozen
class Completes:
    """How completion of the asynchronous operation is signalled: `mechanism` mbarrier (then `what` is the operand) or group."""

    mechanism: str
    what: str


@frozen
class Fragment:
    """The part of a matrix that an operand's registers hold for a thread; words with a dot name a slot or stand for themselves."""

    operand: str
    matrix: str
    """a or b for the factors, c for the addend and the result."""
    shape: str
    type: str
    layout: str
    """The layout of the matrix in memory; empty if it does not matter."""
    is_opaque: bool
    """Whether the manual leaves the positions of elements unspecified."""


@frozen
class Barrier:
    """An action on the barrier that an operand names."""

    action: str
    operand: str


@frozen
class Call:
    """An operator with its arguments: calls, names of operands or slots, and numbers. A slot may name the operator."""

    operator: str
    arguments: tuple[Call | str | int, ...]


@frozen
class Computes:
    """How a result is computed: an operand's value, or operators applied to several."""

    target: str
    value: Call | str | int


@frozen
class Uniform:
    """The group of threads for which results in an operand (empty: any operand) are uniform, if that does not follow from the inputs."""

    operand: str
    word: str


@frozen
class Deprecated:
    version: Version
    message: str


@frozen
class Removed:
    """Removed from `version` on, for target `target` (empty: for all)."""

    version: Version
    target: TargetNeed | None


@frozen(eq=False)
class Form:
    """One form of an instruction, as a form line and the body of its entry declare it. Compared by identity."""

    mnemonic: str
    syntax: str
    slots: tuple[Slot, ...]
    variants: tuple[Variant, ...]
    rules: dict[str, tuple[OperandRule, ...]]
    constraints: tuple[Constraint, ...]
    needs: tuple[Conditional[Needs], ...]
    converges: tuple[Conditional[Converges], ...]
    memory: tuple[Conditional[Memory], ...]
    order: tuple[Conditional[str], ...]
    scope: tuple[Conditional[str], ...]
    asynchronous: tuple[Conditional[Async], ...]
    completes: tuple[Conditional[Completes], ...]
    barrier: tuple[Conditional[Barrier], ...]
    fragments: tuple[Conditional[Fragment], ...]
    threads: tuple[Conditional[str], ...]
    members: tuple[Conditional[str], ...]
    carry: tuple[Conditional[str], ...]
    flow: tuple[Conditional[str], ...]
    effects: tuple[Conditional[str], ...]
    uniform: tuple[Conditional[Uniform], ...]
    computes: tuple[Conditional[Computes], ...]
    copies: bool
    """Whether the results are unchanged operands, or a selection of them: these may be uninitialized if nobody uses the result."""
    deprecated: tuple[Conditional[Deprecated], ...]
    removed: tuple[Conditional[Removed], ...]
    modelled: bool
    summary: str
    section: str
    examples: tuple[str, ...]
    file: str
    line: int
    entry: int
    """The line of the first form line of its entry."""
    takes: dict[str, tuple[int, ...]] = attrs.field(init=False, repr=False)
    """For each modifier of the form, the indices of the `slots` that accept it."""

    @takes.default
    def _takes(self) -> dict[str, tuple[int, ...]]:
        taken: dict[str, tuple[int, ...]] = {}
        for number, slot in enumerate(self.slots):
            only = (number,)
            for choice in slot.choices:
                modifier = choice.modifier
                taken[modifier] = taken[modifier] + only if modifier in taken else only
        return taken

    def slot(self, name: str) -> Slot | None:
        """The slot of this name."""
        return next((s for s in self.slots if s.name == name), None)

    def __str__(self) -> str:
        return self.syntax


@attrs.define
class _Body:
    """The body lines of an entry, while being read."""

    slots: dict[str, list[Choice]] = attrs.field(factory=dict)
    rules: dict[str, list[OperandRule]] = attrs.field(factory=dict)
    constraints: list[Constraint] = attrs.field(factory=list)
    needs: list[Conditional[Needs]] = attrs.field(factory=list)
    converges: list[Conditional[Converges]] = attrs.field(factory=list)
    memory: list[Conditional[Memory]] = attrs.field(factory=list)
    order: list[Conditional[str]] = attrs.field(factory=list)
    scope: list[Conditional[str]] = attrs.field(factory=list)
    asynchronous: list[Conditional[Async]] = attrs.field(factory=list)
    completes: list[Conditional[Completes]] = attrs.field(factory=list)
    barrier: list[Conditional[Barrier]] = attrs.field(factory=list)
    fragments: list[Conditional[Fragment]] = attrs.field(factory=list)
    threads: list[Conditional[str]] = attrs.field(factory=list)
    members: list[Conditional[str]] = attrs.field(factory=list)
    carry: list[Conditional[str]] = attrs.field(factory=list)
    flow: list[Conditional[str]] = attrs.field(factory=list)
    effects: list[Conditional[str]] = attrs.field(factory=list)
    uniform: list[Conditional[Uniform]] = attrs.field(factory=list)
    computes: list[Conditional[Computes]] = attrs.field(factory=list)
    deprecated: list[Conditional[Deprecated]] = attrs.field(factory=list)
    removed: list[Conditional[Removed]] = attrs.field(factory=list)
    modelled: bool = True
    copies: bool = False
    summary: str = ""
    section: str = ""
    examples: list[str] = attrs.field(factory=list)


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
    body = _Body()
    for number, line in lines:
        try:
            _body_line(body, line)
        except ValueError as error:
            raise NotationError(f"{file}:{number}: {error}") from None
    for number, head in heads:
        try:
            yield _form(head, body, file, number, heads[0][0])
        except ValueError as error:
            raise NotationError(f"{file}:{number}: {error}") from None


# -- form lines


_MODIFIER = re.compile(r"\.[\w:]+")


def _form(head: str, body: _Body, file: str, line: int, entry: int) -> Form:
    opcode, _, operand_text = head.partition(" ")
    dot = re.search(r"[.{]", opcode)
    mnemonic = opcode[: dot.start()] if dot else opcode
    if not re.fullmatch(r"[a-z]\w*", mnemonic):
        raise ValueError(f"a mnemonic is expected, not {mnemonic!r}")
    slots, constraints = _slots(opcode[len(mnemonic) :], body)
    variants = _variants(operand_text.strip())
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
        threads=tuple(body.threads),
        members=tuple(body.members),
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


def _slots(text: str, body: _Body) -> tuple[tuple[Slot, ...], list[Constraint]]:
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
        if not _MODIFIER.fullmatch(token):
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


def _check_slot_names(rules: dict[str, tuple[OperandRule, ...]], known: set[str], body: _Body) -> None:
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


_OPERAND_TOKEN = re.compile(r"[\w-]+|[{}\[\](),|!]|\S")


@lru_cache(maxsize=2048)
def _variants(text: str) -> tuple[Variant, ...]:
    """All variants of the operands for the optional parts of a form line, shortest first."""
    tokens = _OPERAND_TOKEN.findall(text)
    variants, at = _sequence(tokens, 0, "")
    if at < len(tokens):
        raise ValueError(f"an operand is expected, not {tokens[at]!r}")
    return tuple(sorted(dict.fromkeys(variants), key=len))


def _sequence(tokens: list[str], at: int, end: str) -> tuple[list[Variant], int]:
    """The variants of operands up to the closing token `end`."""
    variants: list[Variant] = [()]
    while at < len(tokens) and tokens[at] != end:
        if tokens[at] == ",":
            at += 1
            continue
        if tokens[at] == "{" and _is_optional(tokens, at):
            inner, at = _sequence(tokens, at + 1, "}")
            at = _close(tokens, at, "}")
            variants = [variant + more for variant, more in product(variants, [(), *inner])]
            continue
        items, at = _item(tokens, at)
        variants = [(*variant, item) for variant, item in product(variants, items)]
    return variants, at


def _is_optional(tokens: list[str], at: int) -> bool:
    """Whether a brace opens something optional (`{, a}`, `{a,}`) and not a vector (`{a, b}`)."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += {"{": 1, "}": -1}.get(tokens[i], 0)
        if depth == 0:
            return tokens[at + 1] == "," or tokens[i - 1] == ","
    raise ValueError("'}' is expected in the operands")


_BRACKETS = {"[": ("address", "]"), "{": ("vector", "}"), "(": ("list", ")")}


def _item(tokens: list[str], at: int) -> tuple[list[Item], int]:
    """The variants of the operand that begins at a token."""
    token = tokens[at]
    if token in _BRACKETS:
        kind, end = _BRACKETS[token]
        variants, at = _sequence(tokens, at + 1, end)
        return [Item(kind, parts=variant) for variant in variants], _close(tokens, at, end)
    if token == "!":
        at += 1
        token = tokens[at] if at < len(tokens) else ""
    first = _name(token)
    rest = tokens[at + 1 : at + 4]
    if rest[:1] == ["|"]:
        return [_pair(first, _name("".join(rest[1:2])))], at + 3
    if rest[:2] in (["{", "|"], ["[", "|"]):
        return [first, _pair(first, _name("".join(rest[2:3])))], _close(tokens, at + 4, "}" if rest[0] == "{" else "]")
    return [first], at + 1


def _name(token: str) -> Item:
    if not re.fullmatch(r"[\w-]+", token):
        raise ValueError(f"an operand is expected, not {token!r}")
    return Item("plain", token)


def _pair(first: Item, second: Item) -> Item:
    return Item("pair", parts=(first, second))


def _close(tokens: list[str], at: int, end: str) -> int:
    if at >= len(tokens) or tokens[at] != end:
        raise ValueError(f"{end!r} is expected in the operands")
    return at + 1


# -- body lines


_SLOT_LINE = re.compile(r"(\.[\w:]+)\s*(\+?=)\s*(.*)")
_OPERAND_LINE = re.compile(r"([\w-]+(?:\s*,\s*[\w-]+)*)(?:\s+when\s+(.*?))?\s*(?<!:):(?:\s+(.*)|$)")
_SPAN = re.compile(r"\{(\d+)\.\.(\d+)(?:\.\.(\d+))?\}")
_STATEMENT = re.compile(r"(\w+)(?:\s+when\s+(.*?)\s*(?<!:):(?=\s|$))?\s*(.*)")


def _body_line(body: _Body, line: str) -> None:
    if line.startswith("§"):
        body.section = line[1:].strip()
        return
    if line.startswith('"'):
        if len(line) < 2 or not line.endswith('"'):
            raise ValueError("'\"' is expected at the end of the summary")
        body.summary = line[1:-1]
        return
    if line.startswith("."):
        _slot_line(body, line)
        return
    keyword = line.split(maxsplit=1)[0]
    if keyword in _STATEMENTS:
        match = _STATEMENT.fullmatch(line)
        if match is not None and not (match[2] is None and match[3].startswith(":")):
            _STATEMENTS[keyword](body, parse_condition(match[2] or ""), match[3])
            return
    match = _OPERAND_LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"'.slot = …', 'operand: ROLE …' or a statement ({', '.join(sorted(_STATEMENTS))}) is expected, not {line!r}")
    rule = _operand_rule(parse_condition(match[2] or ""), match[3] or "")
    for name in re.split(r"\s*,\s*", match[1]):
        body.rules.setdefault(name, []).append(rule)


def _slot_line(body: _Body, line: str) -> None:
    match = _SLOT_LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"'.slot = .a .b …' is expected, not {line!r}")
    name, sign, text = match.groups()
    if sign == "=" and name in body.slots:
        raise ValueError(f"{name} is given twice; '+=' is expected to add to it")
    choices = body.slots.setdefault(name, [])
    for word in text.split():
        choices.extend(_choices(word))


@lru_cache(maxsize=2048)
def _choices(word: str) -> tuple[Choice, ...]:
    modifier, at, needs = word.partition("@")
    span = _SPAN.search(modifier)
    if not span and not _MODIFIER.fullmatch(modifier):
        raise ValueError(f"a modifier as .name is expected, not {modifier!r}")
    parsed = parse_needs(needs) if at else None
    if not span:
        return (Choice(modifier, parsed),)
    first, last, step = int(span[1]), int(span[2]), int(span[3] or 1)
    before, after = modifier[: span.start()], modifier[span.end() :]
    return tuple([Choice(f"{before}{number}{after}", parsed) for number in range(first, last + 1, step)])


@lru_cache(maxsize=2048)
def parse_condition(text: str) -> Condition:
    """A condition as `.f16 !.sat .shape=.x1|.x2 d=vector`. Raises ValueError."""
    return tuple(_atom(word) for word in text.split())


def _atom(word: str) -> Atom:
    negated = word.startswith("!")
    word = word.removeprefix("!")
    left, equals, right = word.partition("=")
    if not left or (equals and not right):
        raise ValueError(f"a condition as .x, .slot=.x, operand or operand=vector is expected, not {word!r}")
    if equals:
        kind = "slot" if left.startswith(".") else "is"
        return Atom(kind, left, tuple(right.split("|")), negated)
    if left.startswith("."):
        return Atom("has", "", tuple(left.split("|")), negated)
    return Atom("given", left, (), negated)


_ROLE_TYPE = re.compile(r"(\.[\w:]+)(?:\[([^\]]+)\])?")
_WIDTH = re.compile(r"(\.\w+?)(?:\.([a-z]))?((?:[*/]\d+)*)")


@lru_cache(maxsize=2048)
def _operand_rule(when: Condition, text: str) -> OperandRule:
    # Blanks inside braces are no separators: "imm {4, 8, 16}".
    words = re.sub(r"\{[^}]*\}", lambda m: m[0].replace(" ", ""), text).split() if "{" in text else text.split()
    if not words or words[0] not in ROLES:
        raise ValueError(f"a role ({' '.join(sorted(ROLES))}) is expected, not {' '.join(words[:1])!r}")
    role, *words = words
    said: dict[str, Any] = {}
    if words and words[0].startswith("."):
        parts = words.pop(0).split("|")
        said = {"spaces": tuple(parts)} if role == "addr" else {"types": tuple(map(_operand_type, parts))}
    limits: dict[str, Any] = {}
    while words:
        _attribute(said, limits, words)
    return OperandRule(when, role, limits=Limits(**limits) if limits else None, **said)


def _operand_type(text: str) -> OperandType:
    match = _ROLE_TYPE.fullmatch(text)
    if match is None:
        raise ValueError(f"a type as .b32, .type or .type[.vec] is expected, not {text!r}")
    return OperandType(match[1], _width(match[2]) if match[2] else None)


def _width(text: str) -> Width:
    if text.isdecimal():
        return Width(count=int(text))
    match = _WIDTH.fullmatch(text)
    if match is None:
        raise ValueError(f"a width as 4, .vec, .num*4 or .shape.n/2 is expected, not {text!r}")
    times = over = 1
    for sign, number in re.findall(r"([*/])(\d+)", match[3]):
        if sign == "*":
            times *= int(number)
        else:
            over *= int(number)
    return Width(slot=match[1], letter=match[2] or "", times=times, over=over)


_FLAGS: dict[str, tuple[str, object]] = {
    "wide": ("how", "wide"),
    "exact": ("how", "exact"),
    "bits": ("how", "bits"),
    "noimm": ("constants", False),
    "int": ("constant_kind", "int"),
    "float": ("constant_kind", "float"),
    "sink": ("sink", True),
    "neg": ("negatable", True),
    "sreg": ("special", True),
    "sym": ("symbol", True),
    "vector": ("written_out", True),
    "narrow": ("narrow", True),
    "indexed": ("indexed", True),
}


def _attribute(said: dict[str, Any], limits: dict[str, Any], words: list[str]) -> None:
    """Processes the attribute at the start of `words`, and removes it."""
    word = words.pop(0)
    if word in _FLAGS:
        name, value = _FLAGS[word]
        said[name] = value
    elif word == "in" and words:
        said.update(symbol=True, spaces=tuple(words.pop(0).split("|")))
    elif word == "align" and words:
        said["align"] = words.pop(0)
    elif word == "multiple" and words:
        limits["multiple"] = _number(words.pop(0))
    elif word.startswith("{") and word.endswith("}"):
        limits["values"] = tuple(_number(part) for part in word[1:-1].split(",") if part)
    elif ".." in word:
        low, _, high = word.partition("..")
        limits.update(least=_bound(low.removesuffix("<")), most=_bound(high), above=low.endswith("<"))
    elif word != "imm":
        known = f"{' '.join(_FLAGS)}, in .ss, align N, imm lo..hi, imm {{a,b}}, imm multiple N"
        raise ValueError(f"an attribute ({known}) is expected, not {word!r}")


def _bound(text: str) -> float | None:
    """One end of a range; nothing leaves it open."""
    if "." in text:
        return float(text)
    return _number(text) if text else None


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"a number is expected, not {text!r}") from None


# -- statements of the body: each reader takes the condition and the words behind the keyword


def _require(body: _Body, when: Condition, text: str) -> None:
    condition, arrow, then = text.partition("->")
    if not arrow:
        raise ValueError("'require COND -> COND' is expected")
    body.constraints.append(Constraint(when + parse_condition(condition), parse_condition(then)))


def _never(body: _Body, when: Condition, text: str) -> None:
    if not text:
        raise ValueError("'never COND' is expected")
    body.constraints.append(Constraint(when + parse_condition(text), None))


def _copies(body: _Body, when: Condition, text: str) -> None:
    body.copies = True


def _unmodelled(body: _Body, when: Condition, text: str) -> None:
    body.modelled = False


def _example(body: _Body, when: Condition, text: str) -> None:
    body.examples.append(text)


def _needs(body: _Body, when: Condition, text: str) -> None:
    body.needs.append(Conditional(when, parse_needs(text)))


def _converges(body: _Body, when: Condition, text: str) -> None:
    words = text.split()
    levels, flags = words[:1], words[1:]
    if levels not in (["warp"], ["warpgroup"], ["cta"], ["cluster"]) or flags not in ([], ["aligned"], ["whole"], ["aligned", "whole"]):
        raise ValueError(f"'converges warp|warpgroup|cta|cluster [aligned] [whole]' is expected, not {text!r}")
    body.converges.append(Conditional(when, Converges(words[0], "aligned" in words, "whole" in words)))


def _memory(body: _Body, when: Condition, text: str) -> None:
    words = text.replace(",", " ").split()
    if len(words) < 2 or words[0] not in ("read", "write", "readwrite"):
        raise ValueError(f"'memory read|write|readwrite OPERAND …' is expected, not {text!r}")
    access, operand, *rest = words
    said = {"proxy": "", "order": "", "scope": ""}
    is_async = False
    row = 0
    lanes = None
    while rest:
        word = rest.pop(0)
        if word == "async":
            is_async = True
        elif word in said and rest:
            said[word] = rest.pop(0)
        elif word == "row" and rest:
            row = _number(rest.pop(0))
        elif word == "lanes" and rest:
            lanes = _width(rest.pop(0))
        else:
            raise ValueError(f"async, 'proxy WORD', 'order WORD', 'scope WORD', 'row BYTES' or 'lanes WIDTH' is expected, not {word!r}")
    body.memory.append(Conditional(when, Memory(access, operand, is_async, said["proxy"], said["order"], said["scope"], row, lanes)))


def _order(body: _Body, when: Condition, text: str) -> None:
    body.order.append(Conditional(when, _word(text)))


def _scope(body: _Body, when: Condition, text: str) -> None:
    body.scope.append(Conditional(when, _word(text)))


def _async(body: _Body, when: Condition, text: str) -> None:
    words = text.split()
    reading = words[1:2] == ["wait"] and words[-1] == "reading"
    if reading:
        words.pop()
    if len(words) not in (2, 3) or words[1] not in ("open", "commit", "wait", "signal"):
        raise ValueError(f"'async GROUP open|commit|wait|signal [OPERAND] [reading]' is expected, not {text!r}")
    body.asynchronous.append(Conditional(when, Async(words[0], words[1], "".join(words[2:]), reading)))


def _completes(body: _Body, when: Condition, text: str) -> None:
    words = text.split()
    if len(words) != 2 or words[0] not in ("mbarrier", "group"):
        raise ValueError(f"'completes mbarrier OPERAND' or 'completes group NAME' is expected, not {text!r}")
    body.completes.append(Conditional(when, Completes(words[0], words[1])))


def _barrier(body: _Body, when: Condition, text: str) -> None:
    words = text.split()
    if len(words) not in (1, 2):
        raise ValueError(f"'barrier ACTION [OPERAND]' is expected, not {text!r}")
    body.barrier.append(Conditional(when, Barrier(words[0], "".join(words[1:]))))


def _threads(body: _Body, when: Condition, text: str) -> None:
    body.threads.append(Conditional(when, _word(text)))


def _members(body: _Body, when: Condition, text: str) -> None:
    body.members.append(Conditional(when, _word(text)))


def _fragment(body: _Body, when: Condition, text: str) -> None:
    words = text.split()
    is_opaque = words[-1:] == ["opaque"]
    if is_opaque:
        words.pop()
    if len(words) not in (4, 5) or words[1] not in ("a", "b", "c"):
        raise ValueError(f"'fragment OPERAND a|b|c SHAPE TYPE [LAYOUT] [opaque]' is expected, not {text!r}")
    operand, matrix, shape, type_, *layout = words
    body.fragments.append(Conditional(when, Fragment(operand, matrix, shape, type_, "".join(layout), is_opaque)))


def _carry(body: _Body, when: Condition, text: str) -> None:
    body.carry.append(Conditional(when, _word(text, "r", "w", "rw")))


def _flow(body: _Body, when: Condition, text: str) -> None:
    body.flow.append(Conditional(when, _word(text, "branch", "branch-indexed", "call", "return", "exit", "trap", "brkpt")))


def _effect(body: _Body, when: Condition, text: str) -> None:
    body.effects.append(Conditional(when, _word(text)))


def _uniform(body: _Body, when: Condition, text: str) -> None:
    *operand, word = text.split() or [""]
    if len(operand) > 1:
        raise ValueError(f"'uniform [OPERAND] WORD' is expected, not {text!r}")
    body.uniform.append(Conditional(when, Uniform("".join(operand), _word(word, *_UNIFORM))))


_UNIFORM = ("warp", "cta", "never", "inputs", "memory", "broadcast", "one")


def _computes(body: _Body, when: Condition, text: str) -> None:
    target, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", target.strip()):
        raise ValueError(f"'computes OPERAND = VALUE' is expected, not {text!r}")
    body.computes.append(Conditional(when, Computes(target.strip(), parse_value(value))))


_VALUE_TOKEN = re.compile(r"\s*(?:(\d+)|(\.?\w+)(\s*\()?|([),])|$|(.))")


def parse_value(text: str) -> Call | str | int:
    """The value `add(mul(a, b), 1)` as nested calls. Raises ValueError."""
    open_calls: list[tuple[str, list[Call | str | int]]] = [("", [])]
    for number, name, bracket, mark, wrong in _VALUE_TOKEN.findall(text):
        if wrong:
            raise ValueError(f"a name, a number or a bracket is expected, not {wrong!r}, in {text!r}")
        if bracket:
            open_calls.append((name, []))
        elif mark == ")":
            if len(open_calls) == 1:
                raise ValueError(f"'(' is expected before ')' in {text!r}")
            operator, arguments = open_calls.pop()
            open_calls[-1][1].append(Call(operator, tuple(arguments)))
        elif number or name:
            open_calls[-1][1].append(int(number) if number else name)
    if len(open_calls) != 1 or len(open_calls[0][1]) != 1:
        raise ValueError(f"one value is expected, not {text!r}")
    return open_calls[0][1][0]


def _deprecated(body: _Body, when: Condition, text: str) -> None:
    version, _, message = text.partition(" ")
    body.deprecated.append(Conditional(when, Deprecated(parse_version(version), message.strip().strip('"'))))


def _removed(body: _Body, when: Condition, text: str) -> None:
    needs = parse_needs(text)
    if needs.version is None:
        raise ValueError(f"'removed VERSION [TARGET]' is expected, not {text!r}")
    for target in needs.targets or (None,):
        body.removed.append(Conditional(when, Removed(needs.version, target)))


def _word(text: str, *allowed: str) -> str:
    if not text or (allowed and text not in allowed):
        raise ValueError(f"{'one of ' + ', '.join(allowed) if allowed else 'a word'} is expected, not {text!r}")
    return text


_STATEMENTS: dict[str, Callable[[_Body, Condition, str], None]] = {
    "require": _require,
    "never": _never,
    "unmodelled": _unmodelled,
    "example": _example,
    "needs": _needs,
    "converges": _converges,
    "memory": _memory,
    "order": _order,
    "scope": _scope,
    "async": _async,
    "completes": _completes,
    "barrier": _barrier,
    "fragment": _fragment,
    "threads": _threads,
    "members": _members,
    "carry": _carry,
    "flow": _flow,
    "effect": _effect,
    "uniform": _uniform,
    "computes": _computes,
    "copies": _copies,
    "deprecated": _deprecated,
    "removed": _removed,
}
