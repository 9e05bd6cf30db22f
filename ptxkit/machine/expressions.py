"""The operands of an instruction as Python expressions over local variables and objects of a namespace."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.registers import special_register
from ptxkit.machine.code import Body, Site
from ptxkit.machine.fault import Stop
from ptxkit.machine.known import Known
from ptxkit.machine.plans import CARRY, STACK, TOP
from ptxkit.machine.semantics.special import special_value
from ptxkit.machine.types import B128, element_bytes
from ptxkit.names import Kind
from ptxkit.operands import part
from ptxkit.syntax import Address, Component, Element, Expression, Group, Name, Node, Number, Unary, Vector, constant_value

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Program

U64 = np.dtype(np.uint64)
BOOL = np.dtype(np.bool_)


class Expressions:
    """The expressions of one block, and the namespace that they need."""

    def __init__(self, program: Program, body: Body) -> None:
        self.program = program
        self.body = body
        self.objects: list[Any] = []
        self.names: dict[Any, str] = {}
        self.variables: dict[int, str] = {}
        """The local variable of each register."""
        self.dtypes: dict[int, np.dtype[Any]] = {}
        """The current dtype of each local variable."""
        self.loads: list[int] = []
        self.written: dict[int, None] = {}
        self.normal: set[int] = set()
        """The registers that hold single-precision numbers without subnormals."""
        self.temporaries = 0

    def object(self, what: Any, key: Any = None) -> str:
        """The name of an object in the namespace."""
        key = ("id", id(what)) if key is None else key
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"c{len(self.objects)}"
            self.objects.append(what)
        return name

    def dtype(self, dtype: np.dtype[Any]) -> str:
        return self.object(dtype, ("dtype", dtype))

    def constant(self, value: Any) -> str:
        return self.object(value, ("value", value.dtype.str, value.tobytes()))

    def number(self, number: int) -> str:
        """A register number as an object in the namespace, so that blocks that only differ in register numbers share their source."""
        return self.object(number, ("number", number))

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries}"

    def variable(self, number: int) -> str:
        name = self.variables.get(number)
        if name is None:
            name = self.variables[number] = f"v{len(self.variables)}"
        return name

    def read(self, number: int, dtype: np.dtype[Any]) -> str:
        """An expression for the register as a dtype."""
        if number not in self.dtypes:
            self.loads.append(number)
            self.dtypes[number] = self.body.dtypes[number]
        return self.converted(self.variable(number), self.dtypes[number], dtype)

    def converted(self, expression: str, have: np.dtype[Any], want: np.dtype[Any]) -> str:
        """The expression converted to another dtype: reinterpreted if the sizes are equal, otherwise truncated or extended."""
        if have == want:
            return expression
        if have == BOOL or want == BOOL:
            return f"{expression}.astype({self.dtype(want)})"
        if have.itemsize == want.itemsize:
            return (
                f"{expression}.view({self.dtype(want)})" if "V" not in (have.kind, want.kind) else f"view({expression}, {self.dtype(want)})"
            )
        if have.kind == "V":
            return self.converted(f"{expression}['lo']", U64, want)
        if want.kind == "V":
            return f"wide({self.converted(expression, have, U64)})"
        kind = "i" if have.kind == want.kind == "i" else "u"
        if have.kind not in "iu":
            bits = np.dtype(f"u{have.itemsize}")
            return self.converted(f"{expression}.view({self.dtype(bits)})", bits, want)
        middle = np.dtype(f"{kind}{want.itemsize}")
        grown = f"{expression}.astype({self.dtype(middle)})"
        return grown if middle == want else f"{grown}.view({self.dtype(want)})"

    def write(self, number: int, dtype: np.dtype[Any]) -> str:
        """The variable to assign a value of this dtype to."""
        self.dtypes[number] = dtype
        self.written[number] = None
        self.normal.discard(number)
        return self.variable(number)

    def landing_dtype(self, number: int, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype in which a register holds a value of `dtype`: the same if the sizes are equal, otherwise extended."""
        own = self.body.dtypes[number]
        if own.itemsize == dtype.itemsize:
            return dtype
        if own.kind == "V":
            return own
        return np.dtype(f"{'i' if dtype.kind == 'i' else 'u'}{own.itemsize}")

    def operation(self, i: int) -> tuple[Known, list[str]]:
        """The operation of an instruction, and the expressions of its arguments."""
        site = self.body.sites[i]
        bound = site.bound
        if not isinstance(bound, Bound):
            raise Stop("unsupported", bound.message)
        known = self.program.known(site)
        expressions = [self.operand(site, one, dtype, known) if one is not None else "None" for _, one, dtype in known.reads]
        if "r" in bound.carry:
            expressions.append(self.read(CARRY, BOOL))
        if len(known.names) > len(expressions):
            expressions.append(self.read(TOP, U64))
        return known, expressions

    def operand(self, site: Site, operand: BoundOperand, dtype: np.dtype[Any], known: Known) -> str:
        """The expression of an operand that is read."""
        whole = site.instruction.operands[operand.path[0]]
        if type(whole) is Name and len(operand.path) == 1 and len(numbers := self.body.registers_of(site.scope, whole)) == 1:
            return self.read(numbers[0], dtype)
        node = part(whole, operand.path[1:])
        if operand.role == "addr":
            first = isinstance(whole, Address) and (len(operand.path) < 2 or operand.path[1] == 0)
            if known.semantics.parts_address and not self.program.is_watched:
                place = self.place(site, whole)
                if place:
                    return place
            return self.address(site, whole if first else node, known.operation.space(operand.name))
        if isinstance(whole, Address) and len(whole.parts) == 1 and whole.offset is not None:
            # an address that does not refer to bytes, such as one of tensor memory
            value = self.value(site, node, dtype)
            offset = constant_value(whole.offset)
            if offset is None:
                return f"({value} + {self.value(site, whole.offset, dtype)})"
            return f"({value} + {self.constant(np.array(int(offset) * whole.offset_sign, object).astype(np.int64).astype(dtype)[()])})"
        if operand.role == "sreg":
            return self.special(site, node, dtype)
        if isinstance(node, Vector):
            parts = [self.value(site, element, dtype) for element in node.children]
            return f"({', '.join(parts)},)"
        if type(node) is Name:
            numbers = self.body.named(site.scope, node.text)
            if len(numbers) > 1:
                return f"({', '.join([self.read(number, dtype) for number in numbers])},)"
            if not numbers and (found := special_register(node.text)) is not None and found.components > 1:
                parts = [self.special_named(f"{node.text}.{c}", dtype) for c in "xyzw"]
                return f"({', '.join(parts)},)"
        return self.value(site, node, dtype, literal=operand.shape.type if operand.shape.kind == "immediate" else "")

    def value(self, site: Site, node: Node, dtype: np.dtype[Any], literal: str = "") -> str:
        """The expression of a scalar operand as a dtype."""
        if type(node) is Name:
            numbers = self.body.named(site.scope, node.text)
            if numbers:
                return self.read(numbers[0], dtype)
            if node.text == "_":
                return self.constant(np.zeros((), dtype)[()])
            symbol = site.scope.lookup(node.text)
            if symbol is not None:
                return self.symbol(symbol, dtype, node.text)
            return self.special(site, node, dtype)
        if isinstance(node, Component):
            if special_register(node.text) is not None:
                return self.special(site, node, dtype)
            numbers = self.body.registers_of(site.scope, node)
            if numbers:
                return self.read(numbers[0], dtype)
        if isinstance(node, Unary) and constant_value(node) is None:
            inner = self.value(site, node.operand, dtype)
            return f"(~{inner})" if node.operator == "!" else inner
        if isinstance(node, Group) and len(node.children) == 1 and constant_value(node) is None:
            return self.value(site, node.children[0], dtype)
        found = constant(node, dtype)
        if found is not None:
            return self.constant(found)
        if isinstance(node, Element):
            return self.element(site, node, dtype)
        # a symbol with a constant added
        named = [child for child in node.children if type(child) is Name]
        if named and (symbol := site.scope.lookup(named[0].text)) is not None:
            address = self.symbol(symbol, dtype, named[0].text)
            return f"({address} + {self.constant(np.array(_offset(node), object).astype(np.int64).astype(dtype)[()])})"
        raise Stop("unsupported", "an operand that is not understood")

    def element(self, site: Site, node: Element, dtype: np.dtype[Any], space: str = "") -> str:
        """The address of an array element as a dtype; with a space, like `address`."""
        symbol = site.scope.lookup(node.base.text)
        if symbol is None:
            raise Stop("unsupported", "an element of an array that is not declared")
        array = self.address(site, node.base, space) if space else self.symbol(symbol, dtype, node.base.text)
        index = node.number
        constant = 0
        if isinstance(index, Expression) and constant_value(index) is None:
            constant, index = _offset(index), index.terms[0]
        number = self.value(site, index, dtype)
        size = self.constant(np.asarray(element_bytes(symbol.type)).astype(dtype)[()])
        return f"({array} + ({number} + {self.constant(np.array(constant, object).astype(np.int64).astype(dtype)[()])}) * {size})"

    def symbol(self, symbol: Any, dtype: np.dtype[Any], name: str) -> str:
        """The address of a variable or function in its own state space. With `.param .b64 %P<2>` the name says which variable it is."""
        if symbol.kind is Kind.REGISTER:
            raise Stop("unsupported", f"register `{name}` is declared outside of the function")
        formal = self.body.formal(symbol) if symbol.kind is Kind.PARAMETER else -1
        if formal >= 0:
            return self.read(formal, dtype)
        place = self.program.frame_offset(self.body, symbol, name)
        if place is not None:
            base = self.read(STACK, U64)
            return self.converted(f"({base} + {self.constant(np.uint64(place))})", U64, dtype)
        address = np.uint64(self.program.address(symbol, self.program.codes.get(id(self.body))))
        if self.program.clustered and (symbol.space or "").startswith(".shared"):
            return self.converted(f"({self.constant(address)} + L.shared_base)", U64, dtype)
        return self.constant(np.asarray(address).astype(dtype)[()])

    def special(self, site: Site, node: Node, dtype: np.dtype[Any]) -> str:
        return self.special_named(node.text, dtype)

    def special_named(self, name: str, dtype: np.dtype[Any]) -> str:
        found = special_value(name)
        if found is None:
            raise Stop("unsupported", "a name that means nothing here")
        run, have = found
        return self.converted(f"{self.object(run)}(L)", have, dtype)

    def address(self, site: Site, node: Node, space: str) -> str:
        """The expression of an address as uint64, in the window of the state space."""
        if isinstance(node, Element):
            return self.element(site, node, U64, space)
        base = node.base if isinstance(node, Address) else node
        offset = 0
        if isinstance(node, Address) and node.offset is not None:
            found = constant_value(node.offset)
            if found is None:
                number = self.value(site, node.offset, U64)
                return f"({self.address(site, base, space)} + {number})"
            offset = int(found) * node.offset_sign
        if type(base) is Name:
            numbers = self.body.registers_of(site.scope, base)
            symbol = site.scope.lookup(base.text)
            if symbol is not None and symbol.kind is not Kind.REGISTER:
                value = self.symbol(symbol, U64, base.text)
                window = self.program.window(symbol.space or "") if space == ".generic" else 0
                return self._plus(value, offset + window)
            if numbers:
                own = self.body.dtypes[numbers[0]]
                if own.itemsize == 4:
                    number = self.read(numbers[0], np.dtype(np.uint32))
                    if offset:
                        number = f"({number} + {self.constant(np.uint32(offset & 0xFFFFFFFF))})"
                    return f"{number}.astype({self.dtype(U64)})"
                return self._plus(self.read(numbers[0], U64), offset)
        if isinstance(base, Component):
            return self._plus(self.value(site, base, U64), offset)
        found = constant_value(base)
        if found is not None:
            return self.constant(np.uint64((int(found) + offset) & (1 << 64) - 1))
        return self._plus(self.value(site, base, U64), offset)

    def place(self, site: Site, node: Node) -> str:
        """The expression of a `SplitAddress`; empty unless the address is a register plus a non-negative constant."""
        if not isinstance(node, Address) or type(node.base) is not Name:
            return ""
        offset = 0
        if node.offset is not None:
            found = constant_value(node.offset)
            if found is None:
                return ""
            offset = int(found) * node.offset_sign
        numbers = self.body.named(site.scope, node.base.text)
        own = self.body.dtypes[numbers[0]] if len(numbers) == 1 else BOOL
        if offset < 0 or own.kind not in "iu" or own.itemsize < 4:
            return ""
        return f"SplitAddress(({self.read(numbers[0], own)}, {self.object(offset, ('offset', offset))}))"

    def _plus(self, value: str, offset: int) -> str:
        return f"({value} + {self.constant(np.uint64(offset & (1 << 64) - 1))})" if offset else value


def constant(node: Node, dtype: np.dtype[Any]) -> Any:
    """A constant as a dtype, following ISA 4.5: integers are truncated, 0f and 0d give the bits; None if it is not a constant."""
    return _number(node.text, dtype) if type(node) is Number else _converted(constant_value(node), dtype)


@lru_cache(maxsize=1 << 12)
def _number(text: str, dtype: np.dtype[Any]) -> Any:
    if text[:2].lower() not in ("0f", "0d") or len(text) not in (10, 18):
        return _converted(constant_value(Number(text)), dtype)
    exact = np.dtype("u4" if text[1] in "fF" else "u8").type(int(text[2:], 16))
    if dtype.itemsize == exact.dtype.itemsize:
        return exact.view(dtype) if dtype.kind != "V" else None
    return _converted(exact.view(np.float32 if exact.dtype.itemsize == 4 else np.float64), dtype)


def _converted(value: Any, dtype: np.dtype[Any]) -> Any:
    if value is None:
        return None
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return dtype.type(value)
    if dtype == BOOL:
        return np.bool_(bool(value))
    if isinstance(value, float | np.floating):
        if dtype.itemsize == 8:
            return np.uint64(struct.unpack("<Q", struct.pack("<d", float(value)))[0]).view(dtype)
        if dtype.itemsize == 4:
            with np.errstate(all="ignore"):
                return np.float32(value).view(dtype)
        value = int(value)
    if dtype.kind == "V":
        out = np.zeros((), B128)
        out["lo"], out["hi"] = int(value) & (1 << 64) - 1, int(value) >> 64 & (1 << 64) - 1
        return out[()]
    bits = dtype.itemsize * 8
    return np.dtype(f"u{dtype.itemsize}").type(int(value) & (1 << bits) - 1).view(dtype)


def _offset(node: Node) -> int:
    """The constant in `symbol + 4` or `symbol - 4`."""
    total, sign = 0, 1
    for child in node.children:
        value = constant_value(child)
        if value is not None:
            total += sign * int(value)
        elif child.text in ("+", "-"):
            sign = 1 if child.text == "+" else -1
    return total
