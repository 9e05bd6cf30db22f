"""Expressions of a debugger: `%r1`, `%tid.x + 4 == %r2 && %p1`, `s[4]`, `[%rd1+8]:f32`, `%r1@5`. They are read here; Python evaluates none.

expression = comparison { ("&&" | "||") comparison }         each over the lanes of a warp
comparison = sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=") sum ]
sum        = product { ("+" | "-" | "|" | "^") product }
product    = value { ("*" | "/" | "%" | "&" | "<<" | ">>") value }
value      = ["-" | "!" | "~"] atom [":" type] ["@" lane]
atom       = number | register | special register | variable { "[" expression "]" } | "[" expression "]" ["." space] | "(" expression ")"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.debugger import values
from ptxkit.debugger.values import NoValue, Value
from ptxkit.isa.types import types
from ptxkit.machine.types import dtype_of
from ptxkit.memo import expression

if TYPE_CHECKING:
    from ptxkit.debugger.controller import Controller
    from ptxkit.debugger.state import Call, State

_TOKEN = expression(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+|\d+\.\d+(?:[eE][-+]?\d+)?|\d+)|(?P<name>[%$_A-Za-z][\w$]*(?:\.[xyzw]\b)?)"
    r"|(?P<space>\.(?:global|shared|local|param|const|generic)\b)|(?P<sign>&&|\|\||==|!=|<=|>=|<<|>>|[-+*/%&|^~!<>()\[\]:@]))"
)
LONGEST = 500
"""Maximum length of an expression, in characters."""
DEEPEST = 40
"""Maximum nesting of parentheses."""

_BINARY: tuple[dict[str, Callable[[Any, Any], Any]], ...] = (
    {"||": lambda a, b: _truth(a) | _truth(b)},
    {"&&": lambda a, b: _truth(a) & _truth(b)},
    {
        "==": lambda a, b: a == b,
        "!=": lambda a, b: a != b,
        "<=": lambda a, b: a <= b,
        ">=": lambda a, b: a >= b,
        "<": lambda a, b: a < b,
        ">": lambda a, b: a > b,
    },
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b},
    {
        "*": lambda a, b: a * b,
        "/": lambda a, b: a // b if _whole(a) and _whole(b) else a / b,
        "%": lambda a, b: a % b,
        "&": lambda a, b: a & b,
        "<<": lambda a, b: a << _small(b),
        ">>": lambda a, b: a >> _small(b),
    },
)


def evaluate(state: State, call: Call, text: str) -> Value:
    """The value of an expression for the lanes of a call. Raises NoValue with the reason."""
    reader = _Reader(state, call, text)
    try:
        found = reader.whole()
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError) as error:
        raise NoValue(f"`{text}` cannot be computed: {error}") from None
    return found


def condition(text: str) -> Callable[[Controller], bool]:
    """A breakpoint condition: whether it holds for any thread of the chosen CTA that has arrived there. Raises NoValue if it is invalid."""
    _Reader.check(text)

    def holds(controller: Controller) -> bool:
        from ptxkit.debugger.state import Call, State

        state = State(controller)
        first, end, _ = controller.inside(controller.lanes)
        positions = np.arange(first, end)
        taken = [x.take(positions) if getattr(x, "ndim", 0) else x for x in controller.held]
        assert controller.body is not None
        call = Call(controller.lanes.at(positions), controller.body, controller.i, taken, controller.depth)
        try:
            found = evaluate(state, call, text)
        except NoValue:
            return False
        return found.data is not None and bool(np.any(_truth(found.data)))

    return holds


def _truth(x: Any) -> Any:
    return np.asarray(x).astype(bool)


def _whole(x: Any) -> bool:
    return np.asarray(x).dtype.kind in "iubO"


def _small(x: Any) -> Any:
    if np.any(np.asarray(x) < 0) or np.any(np.asarray(x) > 127):
        raise ValueError("a shift by less than 0 or more than 127")
    return x


class _Reader:
    def __init__(self, state: State | None, call: Call | None, text: str) -> None:
        if len(text) > LONGEST:
            raise NoValue(f"an expression has no more than {LONGEST} characters")
        self.state: Any = state
        self.call: Any = call
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise NoValue(f"`{stripped[at:].strip()[:20]}` in `{text}` means nothing here")
            self.tokens.append((found.lastgroup or "", found[found.lastgroup or 0]))
            at = found.end()
        self.at = 0
        self.depth = 0

    @classmethod
    def check(cls, text: str) -> None:
        """Checks the syntax of an expression. Raises NoValue."""
        reader = cls(None, None, text)
        reader.level(0)
        reader.ended()

    def whole(self) -> Value:
        found = self.level(0)
        self.ended()
        if isinstance(found, Value):
            return found
        data = np.asarray(found)
        if data.dtype == object:
            data = _narrow(data)
        return Value(self.text, values._uniform(data) if data.ndim else data[()], is_by_lane=True)

    def ended(self) -> None:
        if self.at < len(self.tokens):
            raise NoValue(f"`{self.tokens[self.at][1]}` in `{self.text}` is one too many")

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> tuple[str, str]:
        if self.at >= len(self.tokens) or (wanted and self.peek() != wanted):
            raise NoValue(f"`{self.text}` lacks {f'`{wanted}`' if wanted else 'something at its end'}")
        self.at += 1
        return self.tokens[self.at - 1]

    def level(self, number: int) -> Any:
        if number == len(_BINARY):
            return self.value()
        found = self.level(number + 1)
        while self.peek() in _BINARY[number]:
            compute = _BINARY[number][self.take()[1]]
            other = self.level(number + 1)
            found = compute(self.plain(found), self.plain(other)) if self.state is not None else None
        return found

    def plain(self, x: Any) -> Any:
        """A value for computation, with integers of any size."""
        data = x.data if isinstance(x, Value) else x
        if data is None:
            raise NoValue(f"{x.name} is not a single value")
        array = np.asarray(data)
        if array.dtype.names is not None:
            raise NoValue("a value of 128 bits is not computed with")
        if isinstance(x, Value) and not x.is_by_lane and array.ndim:
            raise NoValue(f"{x.name} has {array.size} elements: name one, such as {x.name}[0]")
        return array.astype(object) if array.dtype.kind in "iu" else array

    def value(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise NoValue("parentheses within parentheses, too deep")
        sign = self.take()[1] if self.peek() in ("-", "!", "~") else ""
        found = self.atom()
        if self.peek() == ":":
            self.take()
            kind = "." + self.take()[1].lstrip(".")
            if kind not in types():
                raise NoValue(f"`{kind}` is not a type")
            found = self.cast(found, kind)
        if self.peek() == "@":
            self.take()
            number = self.take()[1]
            found = self.of_lane(found, int(number)) if number.isdecimal() else _fail(f"`@{number}` is not a lane")
        self.depth -= 1
        if not sign or self.state is None:
            return found
        data = self.plain(found)
        return -data if sign == "-" else ~_truth(data) if sign == "!" else ~data

    def atom(self) -> Any:
        kind, text = self.take()
        if kind == "number":
            return (np.float64(text) if "." in text else np.array(int(text, 0), object)) if self.state is not None else None
        if text == "(":
            found = self.level(0)
            self.take(")")
            return found
        if text == "[":
            address = self.level(0)
            self.take("]")
            space = self.take()[1] if self.at < len(self.tokens) and self.tokens[self.at][0] == "space" else ".generic"
            return self.loaded(address, space, ".b32" if self.peek() != ":" else self.coming_type())
        if kind != "name":
            raise NoValue(f"`{text}` in `{self.text}` is not a value")
        found = self.named(text)
        while self.peek() == "[":
            self.take()
            index = self.level(0)
            self.take("]")
            found = self.element(found, index)
        return found

    def coming_type(self) -> str:
        return "." + self.tokens[self.at + 1][1].lstrip(".") if self.at + 1 < len(self.tokens) else ".b32"

    # --- what names mean

    def named(self, name: str) -> Any:
        if self.state is None:
            return None
        found = values.register(self.call, name)
        if found is None and name.startswith("%"):
            found = values.special(self.call, name)
        if found is None and name == "WARP_SZ":
            return np.array(32, object)
        if found is None and self.call.body is self.state.program.entry:
            known = values.parameters(self.state, self.call)
            found = next((one for one in known if name in one.name.replace("(", " ").replace(")", " ").split()), None)
        return found if found is not None else values.variable(self.state, self.call, name)

    def element(self, of: Any, index: Any) -> Any:
        if self.state is None:
            return None
        number = np.ravel(self.plain(index))
        if not isinstance(of, Value) or len(number) != 1:
            raise NoValue("an element has one number, the same for all lanes")
        at = int(number[0])
        if of.children:
            return of.children[at] if 0 <= at < len(of.children) else _fail(f"{of.name} has {len(of.children)} elements")
        if of.address is None or of.is_by_lane:
            raise NoValue(f"{of.name} has no elements")
        kind = self.coming_type() if self.peek() == ":" else of.type
        if of.is_uniform and self.peek() != ":":
            kind = ".b32"  # a pointer to an unknown type
        if kind not in types():
            raise NoValue(f"`{kind}` is not a type")
        dtype = dtype_of(kind)
        if not 0 <= at * dtype.itemsize <= of.size - dtype.itemsize:
            raise NoValue(f"{of.name} has {of.size // dtype.itemsize} elements of {kind}")
        raw = values.read(self.state, of.address + at * dtype.itemsize, dtype.itemsize)
        return Value(f"{of.name}[{at}]", np.frombuffer(raw, dtype)[0], kind, address=of.address + at * dtype.itemsize, size=dtype.itemsize)

    def loaded(self, address: Any, space: str, kind: str) -> Any:
        if self.state is None:
            return None
        if kind not in types():
            raise NoValue(f"`{kind}` is not a type")
        numbers = np.asarray(self.plain(address))
        if numbers.dtype != object or any(not 0 <= one < 1 << 64 for one in numbers.ravel().tolist()):
            raise NoValue("an address is a whole number of 64 bits")
        found = values.load(self.state, self.call, space, numbers.astype(np.uint64)[()], kind)
        return values.by_lane(self.text, found, kind)

    def cast(self, found: Any, kind: str) -> Any:
        if self.state is None:
            return None
        dtype = dtype_of(kind)
        if not isinstance(found, Value) or found.data is None:
            raise NoValue("only registers and memory have a type")
        data = np.asarray(found.data)
        if data.dtype == dtype:
            return Value(found.name, found.data, kind, found.is_by_lane, found.address, size=found.size)
        if data.dtype.itemsize != dtype.itemsize or data.dtype == np.bool_:
            raise NoValue(f"{found.name} has {data.dtype.itemsize * 8} bits, {kind} has {dtype.itemsize * 8}")
        return Value(found.name, data.view(dtype)[()], kind, found.is_by_lane, found.address, size=found.size)

    def of_lane(self, found: Any, lane: int) -> Any:
        if self.state is None:
            return None
        lanes = self.call.lanes.lane.tolist()
        if lane not in lanes:
            raise NoValue(f"lane {lane} is not there")
        if not isinstance(found, Value) or found.is_uniform:
            return found
        return Value(f"{found.name}@{lane}", found.data[lanes.index(lane)], found.type, True)


def _narrow(data: Any) -> Any:
    """Converts integers of any size to NumPy's, if they fit."""
    numbers = [int(one) for one in data.ravel().tolist()]
    if all(-(1 << 63) <= one < 1 << 63 for one in numbers):
        return data.astype(np.int64)
    return data.astype(np.uint64) if all(0 <= one < 1 << 64 for one in numbers) else data


def _fail(why: str) -> Any:
    raise NoValue(why)
