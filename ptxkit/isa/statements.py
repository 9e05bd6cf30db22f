"""The lines below a form line of the notation: choices of a slot, rules for operands, and statements about the form."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import attrs

from ptxkit.frozen import define
from ptxkit.isa.forms import (
    ROLES,
    Accumulates,
    Async,
    Atom,
    Barrier,
    Call,
    Choice,
    Completes,
    Computes,
    Condition,
    Conditional,
    Constraint,
    Converges,
    Deprecated,
    Fragment,
    Limits,
    Memory,
    OperandRule,
    OperandType,
    Removed,
    Uniform,
    Width,
)
from ptxkit.isa.requirements import Needs, parse_needs
from ptxkit.isa.targets import parse_version
from ptxkit.memo import expression


@define
class Body:
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
    accumulates: list[Conditional[Accumulates]] = attrs.field(factory=list)
    threads: list[Conditional[str]] = attrs.field(factory=list)
    members: list[Conditional[str]] = attrs.field(factory=list)
    lane: list[Conditional[str]] = attrs.field(factory=list)
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


MODIFIER = expression(r"\.[\w:]+")
_SLOT_LINE = expression(r"(\.[\w:]+)\s*(\+?=)\s*(.*)")
_OPERAND_LINE = expression(r"([\w-]+(?:\s*,\s*[\w-]+)*)(?:\s+when\s+(.*?))?\s*(?<!:):(?:\s+(.*)|$)")
_SPAN = expression(r"\{(\d+)\.\.(\d+)(?:\.\.(\d+))?\}")
_STATEMENT = expression(r"(\w+)(?:\s+when\s+(.*?)\s*(?<!:):(?=\s|$))?\s*(.*)")


def read_line(body: Body, line: str) -> None:
    """Adds what a line of an entry says to the body of the form. Raises ValueError."""
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


def _slot_line(body: Body, line: str) -> None:
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
    if not span and not MODIFIER.fullmatch(modifier):
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


_ROLE_TYPE = expression(r"(\.[\w:]+)(?:\[([^\]]+)\])?")
_WIDTH = expression(r"(\.\w+?)(?:\.([a-z]))?((?:[*/]\d+)*)")


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


def _require(body: Body, when: Condition, text: str) -> None:
    condition, arrow, then = text.partition("->")
    if not arrow:
        raise ValueError("'require COND -> COND' is expected")
    body.constraints.append(Constraint(when + parse_condition(condition), parse_condition(then)))


def _never(body: Body, when: Condition, text: str) -> None:
    if not text:
        raise ValueError("'never COND' is expected")
    body.constraints.append(Constraint(when + parse_condition(text), None))


def _copies(body: Body, when: Condition, text: str) -> None:
    body.copies = True


def _unmodelled(body: Body, when: Condition, text: str) -> None:
    body.modelled = False


def _example(body: Body, when: Condition, text: str) -> None:
    body.examples.append(text)


def _needs(body: Body, when: Condition, text: str) -> None:
    body.needs.append(Conditional(when, parse_needs(text)))


def _converges(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    levels, flags = words[:1], words[1:]
    if levels not in (["warp"], ["warpgroup"], ["cta"], ["cluster"]) or flags not in ([], ["aligned"], ["whole"], ["aligned", "whole"]):
        raise ValueError(f"'converges warp|warpgroup|cta|cluster [aligned] [whole]' is expected, not {text!r}")
    body.converges.append(Conditional(when, Converges(words[0], "aligned" in words, "whole" in words)))


def _memory(body: Body, when: Condition, text: str) -> None:
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


def _order(body: Body, when: Condition, text: str) -> None:
    body.order.append(Conditional(when, _word(text)))


def _scope(body: Body, when: Condition, text: str) -> None:
    body.scope.append(Conditional(when, _word(text)))


def _async(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    reading = words[1:2] == ["wait"] and words[-1] == "reading"
    if reading:
        words.pop()
    if len(words) not in (2, 3) or words[1] not in ("open", "commit", "wait", "signal"):
        raise ValueError(f"'async GROUP open|commit|wait|signal [OPERAND] [reading]' is expected, not {text!r}")
    body.asynchronous.append(Conditional(when, Async(words[0], words[1], "".join(words[2:]), reading)))


def _completes(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    if len(words) != 2 or words[0] not in ("mbarrier", "group"):
        raise ValueError(f"'completes mbarrier OPERAND' or 'completes group NAME' is expected, not {text!r}")
    body.completes.append(Conditional(when, Completes(words[0], words[1])))


def _barrier(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    if len(words) not in (1, 2):
        raise ValueError(f"'barrier ACTION [OPERAND]' is expected, not {text!r}")
    body.barrier.append(Conditional(when, Barrier(words[0], "".join(words[1:]))))


def _threads(body: Body, when: Condition, text: str) -> None:
    body.threads.append(Conditional(when, _word(text)))


def _members(body: Body, when: Condition, text: str) -> None:
    body.members.append(Conditional(when, _word(text)))


def _lane(body: Body, when: Condition, text: str) -> None:
    body.lane += [Conditional(when, word) for word in text.split()]


def _fragment(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    is_opaque = words[-1:] == ["opaque"]
    if is_opaque:
        words.pop()
    if len(words) not in (4, 5) or words[1] not in ("a", "b", "c"):
        raise ValueError(f"'fragment OPERAND a|b|c SHAPE TYPE [LAYOUT] [opaque]' is expected, not {text!r}")
    operand, matrix, shape, type_, *layout = words
    body.fragments.append(Conditional(when, Fragment(operand, matrix, shape, type_, "".join(layout), is_opaque)))


def _accumulates(body: Body, when: Condition, text: str) -> None:
    words = text.split()
    if len(words) not in (1, 2):
        raise ValueError(f"'accumulates OPERAND [OPERAND]' is expected, not {text!r}")
    body.accumulates.append(Conditional(when, Accumulates(words[0], "".join(words[1:]))))


def _carry(body: Body, when: Condition, text: str) -> None:
    body.carry.append(Conditional(when, _word(text, "r", "w", "rw")))


def _flow(body: Body, when: Condition, text: str) -> None:
    body.flow.append(Conditional(when, _word(text, "branch", "branch-indexed", "call", "return", "exit", "trap", "brkpt")))


def _effect(body: Body, when: Condition, text: str) -> None:
    body.effects.append(Conditional(when, _word(text)))


def _uniform(body: Body, when: Condition, text: str) -> None:
    *operand, word = text.split() or [""]
    if len(operand) > 1:
        raise ValueError(f"'uniform [OPERAND] WORD' is expected, not {text!r}")
    body.uniform.append(Conditional(when, Uniform("".join(operand), _word(word, *_UNIFORM))))


_UNIFORM = ("warp", "cta", "never", "inputs", "memory", "broadcast", "one")


def _computes(body: Body, when: Condition, text: str) -> None:
    target, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"\w+", target.strip()):
        raise ValueError(f"'computes OPERAND = VALUE' is expected, not {text!r}")
    body.computes.append(Conditional(when, Computes(target.strip(), parse_value(value))))


_VALUE_TOKEN = expression(r"\s*(?:(\d+)|(\.?\w+)(\s*\()?|([),])|$|(.))")


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


def _deprecated(body: Body, when: Condition, text: str) -> None:
    version, _, message = text.partition(" ")
    body.deprecated.append(Conditional(when, Deprecated(parse_version(version), message.strip().strip('"'))))


def _removed(body: Body, when: Condition, text: str) -> None:
    needs = parse_needs(text)
    if needs.version is None:
        raise ValueError(f"'removed VERSION [TARGET]' is expected, not {text!r}")
    for target in needs.targets or (None,):
        body.removed.append(Conditional(when, Removed(needs.version, target)))


def _word(text: str, *allowed: str) -> str:
    if not text or (allowed and text not in allowed):
        raise ValueError(f"{'one of ' + ', '.join(allowed) if allowed else 'a word'} is expected, not {text!r}")
    return text


_STATEMENTS: dict[str, Callable[[Body, Condition, str], None]] = {
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
    "accumulates": _accumulates,
    "threads": _threads,
    "members": _members,
    "lane": _lane,
    "carry": _carry,
    "flow": _flow,
    "effect": _effect,
    "uniform": _uniform,
    "computes": _computes,
    "copies": _copies,
    "deprecated": _deprecated,
    "removed": _removed,
}
