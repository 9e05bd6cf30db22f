"""Runs one thread of a small kernel, number by number: a second meaning of the instructions, written for the tests alone.

It knows the integer instructions that the tests use, plain registers, and branches; what is loaded from elsewhere than parameters is made
up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from ptxkit.analyses import Routine, registers
from ptxkit.syntax import Address, Node, Number, Unary, Vector

WIDTHS = {".pred": 1, ".b16": 16, ".b32": 32, ".b64": 64, ".f32": 32}


def width_of(opcode: str) -> int:
    """The width of the type that an opcode ends in."""
    kind = opcode.rsplit(".", 1)[1]
    return 1 if kind == "pred" else int(kind[1:])


def signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value


class Thread:
    """One thread with its special registers and parameters (by name)."""

    def __init__(self, routine: Routine, special: Mapping[str, int], parameters: Mapping[str, int]) -> None:
        self.routine = routine
        self.special = special
        self.parameters = parameters
        self.registers: dict[str, int] = {}
        self.widths = {register.name: register.bits for register in registers(routine).table}
        self.loaded = 0x9E3779B97F4A7C15

    def run(self, most: int = 4000) -> Iterator[tuple[int, dict[str, int]]]:
        """Each executed instruction with the registers after it."""
        labels = {name: at for (_, name), at in self.routine.labels.items()}
        at = 0
        for _ in range(most):
            if at >= len(self.routine.instructions):
                return
            instruction = self.routine.instructions[at]
            guard = instruction.guard
            opcode = instruction.opcode.text
            if guard is not None and bool(self.registers[guard.predicate.text]) == guard.negated:
                at += 1
                continue
            if opcode in ("ret", "exit"):
                return
            if opcode.startswith("bra"):
                at = labels[instruction.operands[0].text]
                continue
            self.execute(opcode, list(instruction.operands))
            yield at, dict(self.registers)
            at += 1

    def value(self, node: Node, width: int) -> int:
        mask = (1 << width) - 1
        if isinstance(node, Unary) and node.operator == "!":
            return self.value(node.operand, 1) ^ 1
        if isinstance(node, Number):
            return int(node.value) & mask
        text = node.text
        return (self.registers[text] if text in self.registers else self.special[text]) & mask

    def set(self, node: Node, value: int) -> None:
        self.registers[node.text] = value & ((1 << self.widths[node.text]) - 1)

    def execute(self, opcode: str, operands: list[Node]) -> None:
        words = opcode.split(".")
        base, width, is_signed = words[0], width_of(opcode), words[-1].startswith("s")
        if base in ("st", "bar"):
            return
        if base == "ld":
            name = operands[1]
            if "param" in words and isinstance(name, Address):
                self.set(operands[0], self.parameters[name.base.text])
            else:
                self.loaded = (self.loaded * 6364136223846793005 + 1442695040888963407) % 2**64
                self.set(operands[0], self.loaded >> 20)
            return
        if base == "mov" and isinstance(operands[0], Vector):
            parts = operands[0].elements
            number, each = self.value(operands[1], width), width // len(parts)
            for place, part in enumerate(parts):
                self.set(part, number >> (place * each) & ((1 << each) - 1))
            return
        if base == "mov" and isinstance(operands[1], Vector):
            parts = operands[1].elements
            each = width // len(parts)
            self.set(operands[0], sum([self.value(part, each) << (place * each) for place, part in enumerate(parts)]))
            return
        if base == "cvt":
            source = int(words[-1][1:])
            number = self.value(operands[1], source)
            number = signed(number, source) if is_signed else number
            target = int(words[1][1:])
            number &= (1 << target) - 1
            self.set(operands[0], signed(number, target) if words[1][0] == "s" else number)
            return
        if base == "setp":
            a, b = self.value(operands[1], width), self.value(operands[2], width)
            if is_signed and words[1] in ("lt", "le", "gt", "ge"):
                a, b = signed(a, width), signed(b, width)
            holds = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[words[1]]
            if len(words) == 4:
                c = bool(self.value(operands[3], 1))
                holds = {"and": holds and c, "or": holds or c, "xor": holds != c}[words[2]]
            self.set(operands[0], int(holds))
            return
        self.set(operands[0], self.arithmetic(words, width, is_signed, operands[1:]))

    def arithmetic(self, words: list[str], width: int, is_signed: bool, operands: list[Node]) -> int:
        base = words[0]
        if base in ("shl", "shr"):
            a, amount = self.value(operands[0], width), min(self.value(operands[1], 32), width)
            return a << amount if base == "shl" else (signed(a, width) if is_signed else a) >> amount
        if base == "selp":
            return self.value(operands[0] if self.value(operands[2], 1) else operands[1], width)
        if base in ("bfe", "bfi"):
            position, length = [self.value(node, 32) & 255 for node in operands[-2:]]
            bits = [self.value(operands[0], width) >> i & 1 for i in range(width)]
            if base == "bfi":
                into = [self.value(operands[1], width) >> i & 1 for i in range(width)]
                for i in range(length):
                    if position + i < width:
                        into[position + i] = bits[i]
                return sum([bit << i for i, bit in enumerate(into)])
            fill = bits[min(position + length - 1, width - 1)] if is_signed and length else 0
            field = [bits[position + i] if i < length and position + i < width else fill for i in range(width)]
            return sum([bit << i for i, bit in enumerate(field)])
        numbers = [self.value(node, width) for node in operands]
        if base == "prmt":
            sources = [numbers[0] >> (8 * i) & 255 for i in range(4)] + [numbers[1] >> (8 * i) & 255 for i in range(4)]
            picked = [numbers[2] >> (4 * i) & 15 for i in range(4)]
            chosen = [(255 * (sources[p & 7] >> 7) if p & 8 else sources[p & 7]) for p in picked]
            return sum([byte << (8 * i) for i, byte in enumerate(chosen)])
        if base == "shf":
            both, amount = numbers[1] << 32 | numbers[0], min(numbers[2], 32) if "clamp" in words else numbers[2] & 31
            return (both << amount) >> 32 if "l" in words else both >> amount
        if base == "lop3":
            a, b, c, table = numbers
            rows = [(a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1) for i in range(32)]
            return sum([(table >> row & 1) << i for i, row in enumerate(rows)])
        if is_signed and base in ("mul", "mad", "min", "max", "div", "rem", "abs"):
            numbers = [signed(number, width) for number in numbers]
        if base in ("mul", "mad"):
            product = numbers[0] * numbers[1]
            if "hi" in words:
                product >>= width
            if base == "mad" and "wide" in words:
                return product + self.value(operands[2], 2 * width)
            return product + (numbers[2] if base == "mad" else 0)
        if base in ("div", "rem"):
            quotient = abs(numbers[0]) // abs(numbers[1]) * (1 if (numbers[0] < 0) == (numbers[1] < 0) else -1)
            return quotient if base == "div" else numbers[0] - quotient * numbers[1]
        operations: dict[str, Callable[..., int]] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "min": min,
            "max": max,
            "not": lambda a: ~a,
            "neg": lambda a: -a,
            "abs": abs,
            "mov": lambda a: a,
            "popc": lambda a: a.bit_count(),
            "clz": lambda a: width - a.bit_length(),
            "brev": lambda a: int(f"{a:0{width}b}"[::-1], 2),
            "cnot": lambda a: int(a == 0),
        }
        return int(operations[base](*numbers))
