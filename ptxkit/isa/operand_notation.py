"""The operands in a form line of the notation: every sequence that it allows."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import product

from ptxkit.isa.forms import Item, Variant
from ptxkit.memo import expression

_OPERAND_TOKEN = expression(r"[\w-]+|[{}\[\](),|!]|\S")


@lru_cache(maxsize=2048)
def operand_variants(text: str) -> tuple[Variant, ...]:
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
