"""The operands of a PTX instruction in a thread, as values and addresses of the memory model."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

from ptxkit.analyses.memory_model.expressions import MASK, Function
from ptxkit.analyses.memory_model.paths import CannotFollow
from ptxkit.analyses.memory_model.program import Address, Compute, Operand, Operation
from ptxkit.analyses.memory_model.ptx_kernel import Frame, Kernel, Statement, ThreadIndex
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.types import types
from ptxkit.names import Kind
from ptxkit.syntax import constant_value, nodes

WARP = 32


class Operands:
    """The operands of one instruction in one thread."""

    def __init__(self, kernel: Kernel, thread_index: ThreadIndex, statement: Statement, frame: Frame) -> None:
        assert isinstance(statement.node, nodes.Instruction) and statement.bound is not None
        self.kernel = kernel
        self.frame = frame
        self.thread_index = thread_index
        self.node = statement.node
        self.bound: Bound = statement.bound
        self.block = statement.block
        self.line = statement.line
        self.before: list[Operation] = []
        """What computes operands before the instruction."""

    def refuse(self, why: str = "") -> CannotFollow:
        """The error that says that the instruction is not followed."""
        return CannotFollow(f"`{self.node.opcode.text}` is not followed" + (f": {why}" if why else ""), self.line)

    def part(self, operand: BoundOperand) -> nodes.Node:
        """The node of an operand; an address with its offset."""
        node: nodes.Node = self.node.operands[operand.path[0]]
        for i in operand.path[1:]:
            if isinstance(node, nodes.Address):
                if i == 0:
                    return node  # with its offset
                node = node.parts[i]
            elif isinstance(node, nodes.Vector):
                node = node.elements[i]
            else:
                node = node.children[i]
        return node

    def value(self, node: nodes.Node, kind: str = "") -> Operand:
        """The value of an operand that is read."""
        if isinstance(node, nodes.Name | nodes.Component):
            return self._named(node)
        if isinstance(node, nodes.Address):
            return self.address(node)
        if isinstance(node, nodes.Unary) and node.operator == "!":
            return self.made(Function("not", lambda a: int(a == 0)), self.value(node.operand))
        constant = constant_value(node)
        if constant is not None:
            return _bits(constant, node.text, kind)
        if isinstance(node, nodes.Expression) and len(node.children) == 3:
            left, operator, right = node.children
            if operator.text in ("+", "-"):
                function = Function("add", lambda a, b: a + b) if operator.text == "+" else Function("sub", lambda a, b: a - b)
                return self.made(function, self.value(left), self.value(right))
        raise self.refuse(f"operand `{node.text}`")

    def _named(self, node: nodes.Node) -> Operand:
        name = node.text
        symbol = self.kernel.names.scopes[self.block].lookup(name)
        if symbol is None:
            return self._special(name)
        if symbol.kind is Kind.REGISTER:
            return self.kernel.register(name, self.block)
        if symbol.kind is Kind.VARIABLE:
            return self.kernel.address_of(symbol, self.thread_index)
        raise self.refuse(f"operand `{name}`")

    def _special(self, name: str) -> int:
        running = self.kernel.running
        in_cta = max(one.thread for one in running) + 1
        ctas = max(one.cta for one in running) + 1
        lane = self.thread_index.thread % WARP
        values = {
            "%tid.x": self.thread_index.thread,
            "%ntid.x": self._declared() or -(-in_cta // WARP) * WARP,
            "%ctaid.x": self.thread_index.cta,
            "%nctaid.x": ctas,
            "%laneid": lane,
            "%warpid": self.thread_index.thread // WARP,
            "%lanemask_eq": 1 << lane,
            "%lanemask_lt": (1 << lane) - 1,
            "%lanemask_le": (2 << lane) - 1,
            "%lanemask_gt": ~((2 << lane) - 1) & 0xFFFFFFFF,
            "%lanemask_ge": ~((1 << lane) - 1) & 0xFFFFFFFF,
            **dict.fromkeys(("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z", "%gridid", "%cluster_ctaid.y", "%cluster_ctaid.z"), 0),
            **dict.fromkeys(("%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z", "%cluster_nctaid.y", "%cluster_nctaid.z"), 1),
            **dict.fromkeys(("%cluster_ctarank", "%cluster_ctaid.x"), self.thread_index.cta % self.kernel.clusters),
            **dict.fromkeys(("%cluster_nctarank", "%cluster_nctaid.x"), self.kernel.clusters),
            "%clusterid.x": self.thread_index.cta // self.kernel.clusters,
            "%nclusterid.x": -(-ctas // self.kernel.clusters),
        }
        if name not in values:
            raise self.refuse(f"`{name}`")
        return values[name]

    def _declared(self) -> int:
        """The block size from `.reqntid`."""
        match = re.search(r"\.reqntid\s+(\d+)", self.kernel.function.header.text)
        return int(match.group(1)) if match else 0

    def made(self, function: Callable[..., int], *operands: Operand) -> Operand:
        """Computes a function of operands before the instruction."""
        if all(isinstance(one, int) for one in operands):
            return function(*operands) & MASK
        name = self.kernel.temporary()
        self.before.append(Compute(name, function, operands, line=self.line))
        return name

    def address(self, node: nodes.Node) -> Operand:
        """The address that `[a+4]` denotes."""
        if not isinstance(node, nodes.Address):
            return self.value(node)
        base = self.value(node.base)
        offset = node.offset
        if offset is None:
            return base
        return self.made(Function("add", lambda a, b: a + b), base, node.offset_sign * int(constant_value(offset) or 0))

    def placed(self, name: str) -> Address:
        """The location that the operand of this name points to."""
        operand = self.bound.operand(name)
        if operand is None:
            raise self.refuse()
        value = self.address(self.part(operand))
        return Address("", 0, value) if isinstance(value, str) else Address("", value)

    def targets(self, operand: BoundOperand) -> list[str | None]:
        """The registers that an operand writes; None for `_`."""
        node = self.part(operand)
        elements = node.elements if isinstance(node, nodes.Vector) else (node,)
        return [None if one.text == "_" else self.kernel.register(one.text, self.block) for one in elements]

    def sources(self, operand: BoundOperand) -> list[Operand]:
        """The values that an operand reads."""
        node = self.part(operand)
        kind = operand.types[0] if operand.types else ""
        elements = node.elements if isinstance(node, nodes.Vector) else (node,)
        return [self.value(one, kind) for one in elements]

    def width(self, name: str) -> int:
        """The bits of a register."""
        symbol = self.kernel.names.scopes[self.block].lookup(name)
        kind = symbol.type if symbol is not None else None
        return types()[kind].bits if kind in types() else 64


def _bits(constant: int | float, text: str, kind: str) -> int:
    """The bits of a constant of a type."""
    if isinstance(constant, float):
        if kind == ".f32" or text.lower().startswith("0f"):
            return int.from_bytes(struct.pack("<f", constant), "little")
        return int.from_bytes(struct.pack("<d", constant), "little")
    return constant & MASK
