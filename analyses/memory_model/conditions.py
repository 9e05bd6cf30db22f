"""Questions about the final state: `exists (P1:r0 == 1 /\\ x != 2)`.

A value is an integer of 64 bits; `<` and its kind compare as signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ptxkit.analyses.memory_model.enumerator import Wanted
from ptxkit.analyses.memory_model.expressions import MASK, signed
from ptxkit.frozen import frozen
from ptxkit.memo import expression

Values = Mapping[Wanted, int]


@frozen
class Compare:
    """A comparison of two values, each an integer or a part of the final state."""

    left: Wanted | int
    operator: str
    right: Wanted | int


@frozen
class Not:
    """Negation."""

    one: Condition


@frozen
class Both:
    """Conjunction."""

    left: Condition
    right: Condition


@frozen
class Either:
    """Disjunction."""

    left: Condition
    right: Condition


Condition = Compare | Not | Both | Either

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def wanted(condition: Condition) -> tuple[Wanted, ...]:
    """The parts of the final state in a condition, in order."""
    found: dict[Wanted, None] = {}
    pending: list[Condition] = [condition]
    while pending:
        one = pending.pop()
        if isinstance(one, Compare):
            found.update({side: None for side in (one.left, one.right) if not isinstance(side, int)})
        elif isinstance(one, Not):
            pending.append(one.one)
        else:
            pending += [one.right, one.left]
    return tuple(found)


def is_true(condition: Condition, values: Values) -> bool:
    """Whether a condition holds in a final state."""
    if isinstance(condition, Compare):
        left, right = (one & MASK if isinstance(one, int) else values[one] for one in (condition.left, condition.right))
        return COMPARISONS[condition.operator](signed(left), signed(right))
    if isinstance(condition, Not):
        return not is_true(condition.one, values)
    if isinstance(condition, Both):
        return is_true(condition.left, values) and is_true(condition.right, values)
    return is_true(condition.left, values) or is_true(condition.right, values)


class BadCondition(Exception):
    """Text that is not a valid condition; `at` is the character offset of the error."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


TOKEN = expression(
    r"\s+|(?P<and>/\\|&&)|(?P<or>\\/|\|\|)|(?P<compare>==|!=|<=|>=|=|<|>)|(?P<not>~|!|not\b)"
    r"|(?P<number>-?0[xX][0-9a-fA-F]+|-?\d+(?!\w*:))|(?P<name>[%$\w][\w$%]*)|(?P<mark>[()\[\]:@&+])"
)


def integer(text: str) -> int:
    """The integer that digits denote; hexadecimal after `0x`."""
    return int(text, 16 if "x" in text.lower() else 10)


DEEPEST = 200
"""Maximum nesting of parentheses."""


def parse_condition(text: str, state: Callable[[Sequence[str], int], Wanted | int]) -> Condition:
    """Parses a condition.

    `state` resolves tokens (`P0`, `:`, `r1`, or `x`, or `%r1`, `@`, `0`, `:`, `1`) to a part of the final state or a number; its second
    argument is their offset. Raises BadCondition; so may `state`.
    """
    tokens: list[tuple[str, str, int]] = []
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise BadCondition(f"unexpected {text[at]!r}", at)
        if match.lastgroup is not None:
            tokens.append((match.lastgroup, match.group(), at))
        at = match.end()
    tokens.append(("end", "", len(text.rstrip())))
    return _Parser(tokens, state).whole()


class _Parser:
    def __init__(self, tokens: list[tuple[str, str, int]], state: Callable[[Sequence[str], int], Wanted | int]) -> None:
        self.tokens = tokens
        self.state = state
        self.at = 0
        self.depth = 0

    def whole(self) -> Condition:
        found = self.either()
        if self.tokens[self.at][0] != "end":
            raise BadCondition(f"unexpected {self.tokens[self.at][1]!r} after the condition", self.tokens[self.at][2])
        return found

    def either(self) -> Condition:
        found = self.both()
        while self.tokens[self.at][0] == "or":
            self.at += 1
            found = Either(found, self.both())
        return found

    def both(self) -> Condition:
        found = self.one()
        while self.tokens[self.at][0] == "and":
            self.at += 1
            found = Both(found, self.one())
        return found

    def one(self) -> Condition:
        kind, text, where = self.tokens[self.at]
        self.depth += 1
        if self.depth > DEEPEST:
            raise BadCondition("the condition is nested too deeply", where)
        try:
            if kind == "not":
                self.at += 1
                return Not(self.one())
            if text == "(":
                self.at += 1
                found = self.either()
                if self.tokens[self.at][1] != ")":
                    raise BadCondition("a `)` is missing", self.tokens[self.at][2])
                self.at += 1
                return found
            left = self.value()
            kind, text, where = self.tokens[self.at]
            if kind != "compare":
                raise BadCondition("a comparison is missing", where)
            self.at += 1
            return Compare(left, "==" if text == "=" else text, self.value())
        finally:
            self.depth -= 1

    def value(self) -> Wanted | int:
        kind, text, where = self.tokens[self.at]
        if kind == "number" and self.tokens[self.at + 1][1] != ":":
            self.at += 1
            return integer(text)
        if text == "[":
            self.at += 1
            found = self.value()
            if self.tokens[self.at][1] != "]":
                raise BadCondition("a `]` is missing", self.tokens[self.at][2])
            self.at += 1
            return found
        parts: list[str] = []
        while self.tokens[self.at][0] in ("name", "number") or self.tokens[self.at][1] in (":", "@", "&", "+", "[", "]"):
            parts.append(self.tokens[self.at][1])
            if parts[-1] == "]" and "[" not in parts[:-1]:
                parts.pop()
                break
            self.at += 1
        if not parts:
            raise BadCondition("a register, a variable or a number is missing", where)
        return self.state(parts, where)
