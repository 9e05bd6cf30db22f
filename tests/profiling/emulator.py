"""Runs small kernels on the CPU: warps in lockstep, the threads that are furthest behind first.

It knows the integer instructions of the tests' kernels and of the probes, the commonest of f32, and those by which threads of a warp
speak to each other. What it does not know it refuses.
"""

from __future__ import annotations

import bisect
import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ptxkit.analyses import registers, routines
from ptxkit.analyses.framework.routine import Routine
from ptxkit.rewriters.engine.parameters import bytes_of, layout
from ptxkit.syntax import Address, Component, Declaration, Module, Name, Node, Number, Pair, Unary, Vector

Shape = tuple[int, int, int]
SHARED, LOCAL = 1 << 24, 1 << 25
MOST_STEPS = 2_000_000


class Fault(Exception):
    """What a GPU would end the launch for; the words are the name of the driver's error."""


class Space:
    """Byte-addressed memory in pieces."""

    def __init__(self, base: int) -> None:
        self._next = base
        self._starts: list[int] = []
        self._pieces: dict[int, Any] = {}

    def add(self, size: int, data: Any = None) -> int:
        """The address of a new piece of so many bytes, which may be memory of ours."""
        address = self._next
        self._next += (size + 511) // 256 * 256
        self._starts.append(address)
        self._pieces[address] = bytearray(size) if data is None else data
        return address

    def remove(self, address: int) -> None:
        del self._pieces[address]
        self._starts.remove(address)

    def _find(self, address: int, size: int) -> tuple[Any, int]:
        i = bisect.bisect_right(self._starts, address) - 1
        if i >= 0:
            piece = self._pieces[self._starts[i]]
            at = address - self._starts[i]
            if at + size <= len(piece):
                return piece, at
        raise Fault("CUDA_ERROR_ILLEGAL_ADDRESS")

    def read(self, address: int, size: int) -> bytes:
        piece, at = self._find(address, size)
        return bytes(piece[at : at + size])

    def write(self, address: int, data: bytes) -> None:
        piece, at = self._find(address, len(data))
        piece[at : at + len(data)] = data


class Loaded:
    """A module in memory: its variables have addresses."""

    def __init__(self, module: Module, memory: Space) -> None:
        self.memory = memory
        self.variables: dict[str, int] = {}
        self.shared = [child for child in module.children if isinstance(child, Declaration) and child.space == ".shared"]
        self.kernels: dict[str, Routine] = {one.name: one for one in routines(module) if one.function.is_entry}
        for declaration in module.all(Declaration):
            if declaration.space in (".global", ".const"):
                for one in declaration.declarators:
                    self.variables[one.name.text] = memory.add(bytes_of(declaration, one))

    def launch(self, name: str, grid: Shape, block: Shape, parameters: Sequence[bytes]) -> None:
        """Runs a kernel, one block after the other. Raises Fault."""
        routine = self.kernels[name]
        named = {one.name: data for one, data in zip(layout(routine.function.header), parameters, strict=True)}
        for z, y, x in itertools.product(range(grid[2]), range(grid[1]), range(grid[0])):
            _Block(self, routine, named, grid, block, (x, y, z)).run()


class _Thread:
    def __init__(self, number: int, place: Shape) -> None:
        self.number = number
        self.lane = number % 32
        self.place = place
        self.at = 0
        self.waits = False
        self.ended = False
        self.registers: dict[str, int] = {}


def _three(number: int, shape: Shape) -> Shape:
    return number % shape[0], number // shape[0] % shape[1], number // shape[0] // shape[1]


class _Block:
    def __init__(self, loaded: Loaded, routine: Routine, parameters: dict[str, bytes], grid: Shape, block: Shape, place: Shape) -> None:
        self.loaded, self.routine, self.parameters = loaded, routine, parameters
        self.grid, self.block, self.place = grid, block, place
        self.widths = {one.name: one.bits for one in registers(routine).table}
        self.shared = Space(SHARED)
        self.names: dict[str, int] = dict(loaded.variables)
        inner = [node for _, node in routine.function.walk() if isinstance(node, Declaration)]
        for declaration in [*loaded.shared, *inner]:
            if declaration.space == ".shared":
                for one in declaration.declarators:
                    self.names[one.name.text] = self.shared.add(bytes_of(declaration, one))
        self.threads = [_Thread(n, _three(n, block)) for n in range(math.prod(block))]
        self.steps = 0

    def run(self) -> None:
        warps = [self.threads[at : at + 32] for at in range(0, len(self.threads), 32)]
        while not all(thread.ended for thread in self.threads):
            for warp in warps:
                self.run_warp(warp)
            living = [thread for thread in self.threads if not thread.ended]
            if living and not all(thread.waits for thread in living):
                raise Fault("CUDA_ERROR_LAUNCH_FAILED")
            for thread in living:
                thread.waits = False

    def run_warp(self, warp: list[_Thread]) -> None:
        """Until all threads have ended or wait at a barrier."""
        while ready := [thread for thread in warp if not (thread.ended or thread.waits)]:
            at = min(thread.at for thread in ready)
            self.step(at, [thread for thread in ready if thread.at == at])
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise Fault("CUDA_ERROR_LAUNCH_TIMEOUT")

    def step(self, at: int, group: list[_Thread]) -> None:
        for thread in group:
            thread.at = at + 1
        if at >= len(self.routine.instructions):
            for thread in group:
                thread.ended = True
            return
        instruction = self.routine.instructions[at]
        guard = instruction.guard
        if guard is not None:
            group = [one for one in group if bool(one.registers.get(guard.predicate.text, 0)) != guard.negated]
        if group:
            self.execute(instruction.opcode.text.split("."), list(instruction.operands), group)

    def target(self, at: int, name: str) -> int:
        """Where a label is, which may be in several scopes: that of the innermost around the branch."""
        place = self.routine.where(at)[len(self.routine.path) :]
        scopes = [(scope, found) for (scope, label), found in self.routine.labels.items() if label == name and place[: len(scope)] == scope]
        return max(scopes)[1]

    # --- operands ------------------------------------------------------------------------------------------------------------------

    def value(self, thread: _Thread, node: Node, width: int, floats: bool = False) -> int:
        mask = (1 << width) - 1
        if isinstance(node, Unary):
            inner = self.value(thread, node.operand, width, floats)
            return {"!": inner ^ 1, "~": ~inner, "-": -inner}[node.operator] & mask
        if isinstance(node, Number):
            number = node.value
            if isinstance(number, float):
                return int.from_bytes(struct.pack("<f" if width == 32 else "<d", number), "little")
            return number & mask
        text = node.text
        if text in self.widths:
            return thread.registers.get(text, 0) & mask
        if text in self.names:
            return self.names[text] & mask
        return self.special(thread, node) & mask

    def special(self, thread: _Thread, node: Node) -> int:
        base, part = (node.base.text, "xyz".index(node.selector[-1])) if isinstance(node, Component) else (node.text, 0)
        shapes = {"%tid": thread.place, "%ntid": self.block, "%ctaid": self.place, "%nctaid": self.grid}
        if base in shapes:
            return shapes[base][part]
        known = {
            "%laneid": thread.lane,
            "%lanemask_lt": (1 << thread.lane) - 1,
            "%smid": math.prod(self.place) % 4,
            "%warpid": thread.number // 32,
            "%clock64": self.steps,
            "%clock": self.steps,
            "%globaltimer": 1000 + self.steps,
        }
        return known[base]

    def put(self, thread: _Thread, node: Node, value: int) -> None:
        if node.text != "_":
            thread.registers[node.text] = value & ((1 << self.widths[node.text]) - 1)

    def address(self, thread: _Thread, operand: Node) -> int:
        assert isinstance(operand, Address)
        offset = 0 if operand.offset is None else self.value(thread, operand.offset, 64)
        # `[variable+64+8]`: what is behind the second sign is an expression
        if operand.offset is None and not isinstance(operand.base, Name | Number):
            total = 0
            for part in operand.base.text.replace(" ", "").split("+"):
                total += self.names[part] if part in self.names else int(part, 0)
            return total
        return (self.value(thread, operand.base, 64) + operand.offset_sign * _signed(offset, 64)) % (1 << 64)

    # --- instructions --------------------------------------------------------------------------------------------------------------

    def execute(self, words: list[str], operands: list[Node], group: list[_Thread]) -> None:
        base = words[0]
        if base == "bra":
            target = self.target(group[0].at - 1, operands[0].text)
            for thread in group:
                thread.at = target
        elif base in ("ret", "exit"):
            for thread in group:
                thread.ended = True
        elif base in ("bar", "barrier"):
            for thread in group:
                thread.waits = True
        elif base == "trap":
            raise Fault("CUDA_ERROR_LAUNCH_FAILED")
        elif base in ("activemask", "vote", "shfl", "match", "redux"):
            self.together(words, operands, group)
        elif base in ("membar", "fence"):
            pass
        else:
            for thread in group:
                self.alone(words, operands, thread)

    def together(self, words: list[str], operands: list[Node], group: list[_Thread]) -> None:
        mask = sum([1 << thread.lane for thread in group])
        width = _width(words)
        if words[0] == "activemask":
            for thread in group:
                self.put(thread, operands[0], mask)
            return
        given = {thread.lane: self.value(thread, operands[1], width if words[0] != "vote" else 1) for thread in group}
        if words[0] == "vote":
            ballot = sum([1 << lane for lane, value in given.items() if value])
            results = {"ballot": ballot, "any": int(ballot != 0), "all": int(ballot == mask)}
            for thread in group:
                self.put(thread, operands[0], next(results[word] for word in words if word in results))
        elif words[0] == "redux":
            kind = next(word for word in words if word in ("add", "max", "min", "or", "and"))
            result = _fold(kind, list(given.values()))
            for thread in group:
                self.put(thread, operands[0], result)
        elif words[0] == "match":
            for thread in group:
                same = sum([1 << lane for lane, value in given.items() if value == given[thread.lane]])
                first, second = operands[0].destinations if isinstance(operands[0], Pair) else (operands[0], None)
                if "all" in words:
                    same = same if same == mask else 0
                self.put(thread, first, same)
                if second is not None:
                    self.put(thread, second, int(same != 0))
        else:
            for thread in group:
                other = self.value(thread, operands[2], 32)
                lane = {"idx": other, "bfly": thread.lane ^ other, "down": thread.lane + other, "up": thread.lane - other}[words[2]]
                inside = 0 <= lane < 32
                first, second = operands[0].destinations if isinstance(operands[0], Pair) else (operands[0], None)
                self.put(thread, first, given.get(lane if inside else thread.lane, 0))
                if second is not None:
                    self.put(thread, second, int(inside))

    def alone(self, words: list[str], operands: list[Node], thread: _Thread) -> None:
        base = words[0]
        if base in ("ld", "st", "ldu"):
            self.move(words, operands, thread)
        elif base in ("red", "atom"):
            self.atomic(words, operands, thread)
        elif base == "setp":
            self.compare(words, operands, thread)
        elif base == "cvta":
            self.put(thread, operands[0], self.value(thread, operands[1], 64))
        elif base == "cvt":
            self.convert(words, operands, thread)
        elif base == "mov" and isinstance(operands[0], Vector):
            whole, each = self.value(thread, operands[1], _width(words)), _width(words) // len(operands[0].elements)
            for i, part in enumerate(operands[0].elements):
                self.put(thread, part, whole >> i * each)
        elif words[-1].startswith("f") and base not in ("mov", "selp"):
            self.put(thread, operands[0], self.floats(words, operands, thread))
        else:
            self.put(thread, operands[0], self.integers(words, operands, thread))

    def move(self, words: list[str], operands: list[Node], thread: _Thread) -> None:
        size = _width(words) // 8
        target, source = operands
        if words[0] == "st":
            target, source = source, target
        parts = target.elements if isinstance(target, Vector) else (target,)
        assert isinstance(source, Address)
        if "param" in words:
            at = 0 if source.offset is None else self.value(thread, source.offset, 32)
            data = self.parameters[source.base.text][at:]
            for i, part in enumerate(parts):
                self.put(thread, part, _extended(data[i * size : (i + 1) * size], words, self.widths[part.text]))
            return
        space = self.shared if "shared" in words else self.loaded.memory
        address = self.address(thread, source)
        if address % (size * len(parts)):
            raise Fault("CUDA_ERROR_MISALIGNED_ADDRESS")
        if words[0] == "st":
            data = b"".join([self.value(thread, part, size * 8).to_bytes(size, "little") for part in parts])
            space.write(address, data)
            return
        data = space.read(address, size * len(parts))
        for i, part in enumerate(parts):
            if part.text != "_":
                self.put(thread, part, _extended(data[i * size : (i + 1) * size], words, self.widths[part.text]))

    def atomic(self, words: list[str], operands: list[Node], thread: _Thread) -> None:
        width = _width(words)
        result, where, *rest = operands if words[0] == "atom" else [None, *operands]
        assert where is not None
        space = self.shared if "shared" in words else self.loaded.memory
        address = self.address(thread, where)
        old = int.from_bytes(space.read(address, width // 8), "little")
        given = [self.value(thread, one, width) for one in rest if one is not None]
        kind = next(word for word in words if word in ("add", "max", "min", "or", "and", "xor", "exch", "cas", "inc", "dec"))
        if kind == "cas":
            new = given[1] if old == given[0] else old
        elif kind == "inc":
            new = 0 if old >= given[0] else old + 1
        elif kind == "dec":
            new = given[0] if old == 0 or old > given[0] else old - 1
        elif words[-1].startswith("s") and kind in ("max", "min"):
            new = _fold(kind, [_signed(old, width), _signed(given[0], width)])
        elif words[-1] == "f32":
            new = _bits(_float(old) + _float(given[0]))
        else:
            new = given[0] if kind == "exch" else _fold(kind, [old, given[0]])
        space.write(address, (new % (1 << width)).to_bytes(width // 8, "little"))
        if result is not None:
            self.put(thread, result, old)

    def compare(self, words: list[str], operands: list[Node], thread: _Thread) -> None:
        width = _width(words)
        a, b = [self.value(thread, one, width) for one in operands[1:3]]
        x: float = a
        y: float = b
        if words[-1].startswith("f"):
            x, y = _float(a), _float(b)
        elif words[-1].startswith("s"):
            x, y = _signed(a, width), _signed(b, width)
        kind = words[1]
        holds = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "lo": x < y, "hs": x >= y}[kind]
        results = [holds, not holds]
        if len(operands) > 3:
            c = bool(self.value(thread, operands[3], 1))
            join = next(word for word in words if word in ("and", "or", "xor"))
            results = [{"and": one and c, "or": one or c, "xor": one != c}[join] for one in results]
        targets = operands[0].destinations if isinstance(operands[0], Pair) else (operands[0],)
        for target, result in zip(targets, results, strict=False):
            self.put(thread, target, int(result))

    def convert(self, words: list[str], operands: list[Node], thread: _Thread) -> None:
        to, of = words[-2], words[-1]
        number: float = self.value(thread, operands[1], int(of[1:]))
        if of[0] == "f":
            number = _float(int(number))
        elif of[0] == "s":
            number = _signed(int(number), int(of[1:]))
        self.put(thread, operands[0], _bits(float(number)) if to[0] == "f" else int(number))

    def floats(self, words: list[str], operands: list[Node], thread: _Thread) -> int:
        numbers = [_float(self.value(thread, one, 32)) for one in operands[1:]]
        operations: dict[str, Callable[..., float]] = {
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "mul": lambda a, b: a * b,
            "fma": lambda a, b, c: a * b + c,
            "mad": lambda a, b, c: a * b + c,
            "max": max,
            "min": min,
            "neg": lambda a: -a,
        }
        return _bits(operations[words[0]](*numbers))

    def integers(self, words: list[str], operands: list[Node], thread: _Thread) -> int:
        base, width, signed = words[0], _width(words), words[-1].startswith("s")

        def number(node: Node, bits: int = width) -> int:
            value = self.value(thread, node, bits)
            return _signed(value, bits) if signed else value

        if base == "selp":
            return number(operands[1] if self.value(thread, operands[3], 1) else operands[2])
        if base in ("shl", "shr"):
            amount = min(self.value(thread, operands[2], 32), width)
            return number(operands[1]) << amount if base == "shl" else number(operands[1]) >> amount
        if base in ("mul", "mad"):
            product = number(operands[1]) * number(operands[2])
            if "hi" in words:
                product >>= width
            wide = 2 * width if "wide" in words else width
            return product + (number(operands[3], wide) if base == "mad" else 0)
        given = [number(one) for one in operands[1:]]
        operations: dict[str, Callable[..., int]] = {
            "mov": lambda a: a,
            "add": lambda a, b: a + b,
            "sub": lambda a, b: a - b,
            "and": lambda a, b: a & b,
            "or": lambda a, b: a | b,
            "xor": lambda a, b: a ^ b,
            "min": min,
            "max": max,
            "not": lambda a: ~a,
            "neg": lambda a: -a,
            "popc": lambda a: a.bit_count(),
            "clz": lambda a: width - a.bit_length(),
            "brev": lambda a: int(f"{a:0{width}b}"[::-1], 2),
            "rem": lambda a, b: int(math.fmod(a, b)),
            "div": lambda a, b: int(a / b),
        }
        return operations[base](*given)


def _width(words: list[str]) -> int:
    kind = words[-1]
    return 1 if kind == "pred" else int(kind.lstrip("busf"))


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> width - 1 & 1 else value


def _extended(data: bytes, words: list[str], width: int) -> int:
    value = int.from_bytes(data, "little", signed=words[-1].startswith("s"))
    return value % (1 << width)


def _float(bits: int) -> float:
    return float(struct.unpack("<f", bits.to_bytes(4, "little"))[0])


def _bits(number: float) -> int:
    try:
        return int.from_bytes(struct.pack("<f", number), "little")
    except OverflowError:
        return 0x7F800000 if number > 0 else 0xFF800000


def _fold(kind: str, numbers: list[int]) -> int:
    result = numbers[0]
    for number in numbers[1:]:
        result = {
            "add": result + number, "max": max(result, number), "min": min(result, number), "or": result | number,
            "and": result & number, "xor": result ^ number,
        }[kind]  # fmt: skip
    return result
