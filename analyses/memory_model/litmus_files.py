"""Parsing of litmus files: a small concurrent program and a question about its final state, in the dialect of Dat3M.

    PTX MP
    "message passing"
    {
    x=0; flag=0; P1:r0=0;
    s @ surface aliases x;
    }
     P0@cta 0,gpu 0        | P1@cta 1,gpu 0          ;
     st.weak x, 1          | ld.acquire.gpu r0, flag ;
     st.release.gpu flag, 1| ld.weak r1, x           ;
    ~exists
    (P1:r0 == 1 /\\ P1:r1 == 0)

Values have 64 bits, a variable 8 bytes; an instruction with a type (`ld.weak.u32 r0, [x+4]`) accesses the bytes of that type. Undeclared
variables and registers are 0. `cluster N` may be given between `cta` and `gpu`. The full syntax is in `docs/memory-model.md`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from ptxkit.analyses.memory_model.conditions import BadCondition, Condition, integer, parse_condition
from ptxkit.analyses.memory_model.enumerator import Register, Wanted
from ptxkit.analyses.memory_model.expressions import COMPARISONS, COPY, MASK, arithmetic
from ptxkit.analyses.memory_model.litmus import Litmus
from ptxkit.analyses.memory_model.program import (
    PROXIES,
    SCOPES,
    Address,
    AsyncCopy,
    AsyncWait,
    Atomic,
    Barrier,
    Branch,
    Compute,
    Fence,
    Label,
    Load,
    Operand,
    Operation,
    Program,
    ProxyFence,
    Store,
    Thread,
    Variable,
)
from ptxkit.analyses.memory_model.skeleton import Observed
from ptxkit.memo import expression

WORD = 8
"""Bytes of a variable that is accessed without a type."""


class BadLitmus(Exception):
    """Text that is not a valid litmus test: the error, and its character offset."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def parse(text: str) -> Litmus:
    """Parses a test. Raises BadLitmus."""
    return _Reader(text).test()


BLANK = expression(r"\(\*.*?\*\)|<<.*?>>|//[^\n]*", re.S)
QUESTION = expression(r"(?<![\w.])(?P<not>(~|not)\s*)?(?P<word>exists|forall|final|filter|locations)\b")
THREAD = expression(r"\s*P?(?P<number>\d+)\s*@\s*(?P<groups>[^|;]*?)\s*$")
GROUP = expression(r"\s*(cta|cluster|gpu)\s+(\d+)\s*$")
DECLARATION = expression(
    r"\s*(?:P?(?P<thread>\d+)\s*:\s*)?(?P<name>[%$A-Za-z_][\w$%]*)\s*"
    r"(?:=\s*(?P<address>&\s*)?(?P<value>-?\w+)|@\s*(?P<proxy>\w+)\s+aliases\s+(?P<base>\w+))?\s*$"
)
NUMBER = expression(r"-?(0[xX][0-9a-fA-F]+|\d+)$")
REGISTER = expression(r"%?r\d+$")
NAME = expression(r"[%$A-Za-z_][\w$%]*$")
LOCATED = expression(r"(\[)?\s*(?P<name>[A-Za-z_$][\w$]*)\s*(\+\s*(?P<offset>\d+))?\s*(?(1)\])$")
TYPE = expression(r"[usbf](8|16|32|64)$")
SPACES = ("global", "shared", "param", "const", "local")
MEMORY = {
    "ld": ("generic", "load"),
    "tld": ("texture", "load"),
    "suld": ("surface", "load"),
    "cold": ("constant", "load"),
    "st": ("generic", "store"),
    "sust": ("surface", "store"),
    "atom": ("generic", "atomic"),
    "suatom": ("surface", "atomic"),
    "red": ("generic", "reduction"),
    "sured": ("surface", "reduction"),
}
SEMANTICS = {
    "load": ("weak", "relaxed", "acquire", "volatile", "mmio"),
    "store": ("weak", "relaxed", "release", "volatile", "mmio"),
    "atomic": ("relaxed", "acquire", "release", "acq_rel"),
    "reduction": ("relaxed", "acquire", "release", "acq_rel"),
}
BRANCHES = {f"b{name}": function for name, function in COMPARISONS.items()}
ARITHMETIC = ("add", "sub", "mul", "div", "and", "or", "xor", "min", "max")


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = BLANK.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        self.variables: dict[str, Variable] = {}
        self.accesses: dict[str, int] = {}
        self.registers: dict[int, dict[str, int]] = {}
        self.threads: list[tuple[int, dict[str, int]]] = []
        self.numbers: dict[int, int] = {}

    def line(self, at: int) -> int:
        return self.text.count("\n", 0, at) + 1

    def test(self) -> Litmus:
        header = re.match(r"\s*(PTX|ptx)\b\s*(?P<name>[^\n\"{]*)", self.text)
        if header is None:
            raise BadLitmus("a litmus test of PTX begins with `PTX` and its name", len(self.text) - len(self.text.lstrip()))
        opening = self.text.find("{", header.end("name"))
        if opening < 0:
            raise BadLitmus("the `{` before the initial state is missing", len(self.text.rstrip()))
        closing = self.text.find("}", opening)
        if closing < 0:
            raise BadLitmus("the `}` after the initial state is missing", len(self.text.rstrip()))
        body = closing + 1
        ending = self._ending(body)
        declared = list(self._pieces(opening + 1, closing, ";"))
        rows = list(self._pieces(body, ending, ";"))
        while rows and not rows[0][0].strip():
            rows.pop(0)
        if not rows:
            raise BadLitmus("the threads are missing", body)
        self._threads(*rows[0])
        for piece, at in declared:
            self._declare(piece, at)
        code = self._code(rows[1:])
        question, condition, filter_ = self._question(ending)
        program = self._program(header.group("name").strip(), code)
        return Litmus(program, question, condition, filter_)

    def _ending(self, start: int) -> int:
        match = QUESTION.search(self.text, start)
        if match is None:
            raise BadLitmus("the question is missing: exists, ~exists or forall", len(self.text.rstrip()))
        return match.start()

    def _pieces(self, start: int, end: int, mark: str) -> list[tuple[str, int]]:
        found = []
        while start <= end:
            stop = self.text.find(mark, start, end)
            if stop < 0:
                stop = end
            found.append((self.text[start:stop], start))
            start = stop + 1
        return found

    @staticmethod
    def _trimmed(piece: str, at: int) -> tuple[str, int]:
        return piece.strip(), at + len(piece) - len(piece.lstrip())

    def _threads(self, row: str, at: int) -> None:
        for piece, where in self._pieces(at, at + len(row), "|"):
            match = THREAD.match(piece)
            if match is None:
                raise BadLitmus("a thread is written like `P0@cta 0,gpu 0`", self._trimmed(piece, where)[1])
            groups: dict[str, int] = {}
            for one in match.group("groups").split(","):
                group = GROUP.match(one)
                if group is None or group.group(1) in groups:
                    raise BadLitmus("a thread is written like `P0@cta 0,gpu 0`", where + match.start("groups"))
                groups[group.group(1)] = int(group.group(2))
            if not {"cta", "gpu"} <= groups.keys():
                raise BadLitmus("a thread has a `cta` and a `gpu`", where + match.start("groups"))
            number = int(match.group("number"))
            if number in self.numbers:
                raise BadLitmus(f"thread P{number} is there twice", self._trimmed(piece, where)[1])
            self.numbers[number] = len(self.threads)
            self.threads.append((number, groups))

    def _declare(self, piece: str, at: int) -> None:
        text, where = self._trimmed(piece, at)
        if not text:
            return
        match = DECLARATION.match(text)
        if match is None:
            raise BadLitmus("not a declaration: `x = 0`, `P0:r0 = 0` or `y @ generic aliases x`", where)
        name = match.group("name")
        if match.group("proxy") is not None:
            proxy, base = match.group("proxy"), match.group("base")
            if proxy not in PROXIES:
                raise BadLitmus(f"there is no proxy `{proxy}`: {', '.join(PROXIES)}", where + match.start("proxy"))
            self._variable(base)
            self.variables[name] = Variable(name, alias_of=base, is_same_address=proxy != "generic")
            return
        value = self._initial(match)
        if match.group("thread") is None:
            self.variables[name] = Variable(name, value & MASK)
            return
        number = int(match.group("thread"))
        if number not in self.numbers:
            raise BadLitmus(f"there is no thread P{number}", where)
        self.registers.setdefault(number, {})[name] = value & MASK

    def _initial(self, match: re.Match[str]) -> int:
        value = match.group("value")
        if value is None:
            return 0
        if NUMBER.match(value):
            return integer(value)
        self._variable(value)
        return self._address(value) if match.group("address") or match.group("thread") else self.variables[value].value

    def _address(self, name: str) -> int:
        """A number that represents the address of a variable."""
        return 0x1000 * (1 + list(self.variables).index(name))

    def _variable(self, name: str) -> None:
        if name not in self.variables:
            self.variables[name] = Variable(name)

    def _code(self, rows: Sequence[tuple[str, int]]) -> list[list[Operation]]:
        code: list[list[Operation]] = [[] for _ in self.threads]
        for row, at in rows:
            if not row.strip():
                continue
            cells = self._pieces(at, at + len(row), "|")
            if len(cells) > len(code):
                raise BadLitmus(f"a row has {len(cells)} instructions, but there are {len(code)} threads", cells[len(code)][1])
            for thread, (cell, where) in enumerate(cells):
                text, start = self._trimmed(cell, where)
                while text:
                    label = re.match(r"([A-Za-z_]\w*)\s*:(?!:)\s*", text)
                    if label is None:
                        break
                    code[thread].append(Label(label.group(1), self.line(start)))
                    text, start = text[label.end() :], start + label.end()
                if text:
                    code[thread].append(self._instruction(text, start))
        for thread, operations in enumerate(code):
            labels = {one.name for one in operations if isinstance(one, Label)}
            for one in operations:
                if isinstance(one, Branch) and one.label not in labels:
                    at = self._position(one.line)
                    raise BadLitmus(f"thread P{self.threads[thread][0]} has no label {one.label}", at)
        return code

    def _position(self, line: int) -> int:
        at = 0
        for _ in range(line - 1):
            at = self.text.find("\n", at) + 1
        return at + len(self.text[at:].split("\n")[0]) - len(self.text[at:].split("\n")[0].lstrip())

    def _instruction(self, text: str, at: int) -> Operation:
        match = re.match(r"(?P<name>[A-Za-z][\w.]*(::\w+)*)\s*", text)
        if match is None:
            raise BadLitmus("an instruction is missing", at)
        first, *modifiers = match.group("name").split(".")
        operands = _split(text[match.end() :], at + match.end())
        line = self.line(at)
        if first in MEMORY and (modifiers or first != "ld"):
            return self._memory(first, modifiers, operands, at, line)
        if first in ("ld", "mov"):
            self._count(operands, 2, at)
            return Compute(self._register(*operands[0]), COPY, (self._value(*operands[1]),), text, line)
        if first in ARITHMETIC and not [one for one in modifiers if not TYPE.match(one)]:
            self._count(operands, 3, at)
            values = (self._value(*operands[1]), self._value(*operands[2]))
            return Compute(self._register(*operands[0]), arithmetic(first), values, text, line)
        if first in BRANCHES:
            self._count(operands, 3, at)
            values = (self._value(*operands[0]), self._value(*operands[1]))
            return Branch(self._label(*operands[2]), BRANCHES[first], values, text, line)
        if first in ("goto", "bra"):
            self._count(operands, 1, at)
            return Branch(self._label(*operands[0]), text=text, line=line)
        if first in ("fence", "membar"):
            return self._fence(first, modifiers, at, line)
        if first in ("bar", "barrier"):
            return self._barrier(modifiers, operands, at, line)
        if first == "cp" and modifiers and modifiers[0] == "async":
            return self._copy(modifiers[1:], operands, at, line)
        raise BadLitmus(f"there is no instruction `{match.group('name')}`", at)

    @staticmethod
    def _count(operands: Sequence[tuple[str, int]], *counts: int | None) -> None:
        *allowed, at = counts
        if len(operands) not in allowed:
            wanted_ = " or ".join(map(str, allowed))
            where = operands[min(len(operands), max(one or 0 for one in allowed)) - 1][1] if operands else at or 0
            raise BadLitmus(f"{wanted_} operands are needed, not {len(operands)}", where)

    def _register(self, text: str, at: int) -> str:
        if not NAME.match(text) or text in self.variables:
            raise BadLitmus(f"`{text}` is not a register", at)
        return text

    def _label(self, text: str, at: int) -> str:
        if not NAME.match(text):
            raise BadLitmus(f"`{text}` is not a label", at)
        return text

    def _value(self, text: str, at: int) -> Operand:
        if NUMBER.match(text):
            return integer(text)
        if text.startswith("&") and NAME.match(text[1:]):
            self._variable(text[1:])
            return self._address(text[1:])
        if REGISTER.match(text) or (NAME.match(text) and text not in self.variables):
            return text
        raise BadLitmus(f"`{text}` is neither a number nor a register", at)

    def _location(self, text: str, at: int) -> tuple[str, int]:
        match = LOCATED.match(text)
        if match is None or REGISTER.match(match.group("name")):
            raise BadLitmus(f"`{text}` is not a variable", at)
        self._variable(match.group("name"))
        return match.group("name"), int(match.group("offset") or 0)

    def _memory(self, first: str, modifiers: list[str], operands: list[tuple[str, int]], at: int, line: int) -> Operation:
        proxy, kind = MEMORY[first]
        sem, scope, size, vector, operator = "", "", 0, 1, ""
        for one in modifiers:
            typed = TYPE.match(one)
            if one in SEMANTICS[kind]:
                sem = {"volatile": "relaxed", "mmio": "relaxed"}.get(one, one) if not (sem and one == "mmio") else sem
                scope = "sys" if one in ("volatile", "mmio") else scope
            elif one in SCOPES:
                scope = one
            elif typed:
                size = int(typed.group(1)) // 8
                operator = f"{operator}.s" if one[0] == "s" and operator in ("min", "max") else operator
            elif one in ("v2", "v4") and kind in ("load", "store"):
                vector = int(one[1])
            elif kind in ("atomic", "reduction") and _is_operator(one, kind):
                operator = one
            elif one.split("::")[0] not in SPACES:
                raise BadLitmus(f"`{first}` has no `.{one}`", at)
        if kind in ("atomic", "reduction"):
            sem, scope = sem or "relaxed", scope or "gpu"
            if not operator:
                raise BadLitmus(f"`{first}` needs an operation, as in `{first}.relaxed.gpu.add`", at)
        else:
            sem = sem or "weak"
        if sem == "weak" and scope:
            raise BadLitmus(f"a weak `{first}` has no scope", at)
        if sem != "weak" and not scope:
            raise BadLitmus(f"`{first}.{sem}` needs a scope: {', '.join(SCOPES)}", at)
        return self._access(kind, proxy, sem, scope or None, size, vector, operator, operands, at, line)

    def _access(
        self,
        kind: str,
        proxy: str,
        sem: str,
        scope: str | None,
        size: int,
        vector: int,
        operator: str,
        operands: list[tuple[str, int]],
        at: int,
        line: int,
    ) -> Operation:
        values = 2 if operator == "cas" else 1
        count = {"load": 2, "store": 2, "atomic": 2 + values, "reduction": 1 + values}[kind]
        self._count(operands, count, at)
        operand = operands[1] if kind in ("load", "atomic") else operands[0]
        name, offset = self._location(*operand)
        if size:
            self.accesses[name] = max(self.accesses.get(name, 0), offset + size * vector)
        address = Address(name, offset)
        if kind == "load":
            texts = _braced(*operands[0], vector)
            names = tuple(self._register(*one) for one in texts)
            return Load(names if vector > 1 else names[0], address, sem, scope, size, proxy, line)
        if kind == "store":
            numbers = tuple(self._value(*one) for one in _braced(*operands[1], vector))
            return Store(address, numbers if vector > 1 else numbers[0], sem, scope, size, proxy, line)
        register = self._register(*operands[0]) if kind == "atomic" else None
        given = tuple(self._value(*one) for one in operands[-values:])
        return Atomic(register, operator, address, given, sem, scope or "gpu", size, proxy, line)

    def _fence(self, first: str, modifiers: list[str], at: int, line: int) -> Operation:
        if modifiers and modifiers[0] == "proxy":
            rest = ".".join(modifiers[1:])
            kind, _, space = rest.partition(".")
            if kind not in (*PROXIES[1:], "alias"):
                raise BadLitmus(f"there is no proxy `{rest}`: alias, {', '.join(PROXIES[1:])}", at)
            return ProxyFence(kind, (space.split("::")[0],) if space else (), line)
        if first == "membar":
            levels = {"cta": "cta", "gl": "gpu", "sys": "sys"}
            if len(modifiers) != 1 or modifiers[0] not in levels:
                raise BadLitmus("`membar` has a level: cta, gl or sys", at)
            return Fence("sc", levels[modifiers[0]], line)
        sems = [one for one in modifiers if one in ("sc", "acq_rel")]
        scopes = [one for one in modifiers if one in SCOPES]
        if len(sems) > 1 or len(scopes) != 1 or len(sems) + len(scopes) != len(modifiers):
            raise BadLitmus("a fence is written like `fence.acq_rel.gpu` or `fence.sc.cta`", at)
        return Fence(sems[0] if sems else "acq_rel", scopes[0], line)

    def _barrier(self, modifiers: list[str], operands: list[tuple[str, int]], at: int, line: int) -> Operation:
        words = [one for one in modifiers if one not in ("cta", "aligned")]
        if "cluster" in words and len(words) >= 2 and words[1] in ("arrive", "wait"):
            return Barrier(words[1], cluster=True, is_relaxed="relaxed" in words, line=line)
        if len(words) != 1 or words[0] not in ("sync", "arrive"):
            raise BadLitmus("a barrier is written like `bar.cta.sync 0` or `bar.cta.arrive 0`", at)
        self._count(operands, 1, 2, 3, at)
        if not NUMBER.match(operands[0][0]):
            raise BadLitmus(f"`{operands[0][0]}` is not a number", operands[0][1])
        instance = integer(operands[0][0])
        barrier: tuple[int, Operand] = (instance, 0)
        if len(operands) > 1:
            barrier = (instance, self._value(*operands[1]))
        else:
            barrier = (-1 - instance, 0)
        threads = self._value(*operands[2]) if len(operands) > 2 else None
        return Barrier(words[0], barrier, threads, line=line)

    def _copy(self, modifiers: list[str], operands: list[tuple[str, int]], at: int, line: int) -> Operation:
        if modifiers and modifiers[0] in ("wait_all", "wait_group"):
            pending = int(operands[0][0]) if operands and operands[0][0].isdigit() else 0
            return AsyncWait(pending, line)
        self._count(operands, 2, 3, at)
        target, source = (Address(*self._location(*one)) for one in operands[:2])
        size = int(operands[2][0]) if len(operands) > 2 and operands[2][0].isdigit() else 0
        if size:
            for one in (target, source):
                self.accesses[one.variable] = max(self.accesses.get(one.variable, 0), one.offset + size)
        return AsyncCopy(target, source, size, "async" if "bulk" in modifiers else "generic", line)

    def _question(self, start: int) -> tuple[str, Condition, Condition | None]:
        question, condition, filter_ = "", None, None
        at = start
        while at < len(self.text):
            match = QUESTION.match(self.text, at)
            if match is None:
                raise BadLitmus("exists, ~exists or forall is expected", at)
            following = QUESTION.search(self.text, match.end())
            end = following.start() if following else len(self.text)
            body = self.text[match.end() : end]
            word = match.group("word")
            at = end
            if word == "locations":
                continue
            if word == "final":
                body = re.split(r"\bwith\b", body)[0]
                end = len(self.text)
                at = end
            one = self._condition(body.rstrip().removesuffix(";"), match.end())
            if word == "filter":
                filter_ = one
                continue
            if question:
                raise BadLitmus("there is more than one question", match.start())
            question = "exists" if word == "final" else ("~" if match.group("not") else "") + word
            condition = one
        if condition is None:
            raise BadLitmus("the question is missing: exists, ~exists or forall", len(self.text.rstrip()))
        return question, condition, filter_

    def _condition(self, text: str, start: int) -> Condition:
        try:
            return parse_condition(text, self._state)
        except BadCondition as error:
            raise BadLitmus(str(error), min(start + error.at, len(self.text))) from None

    def _state(self, parts: Sequence[str], at: int) -> Wanted | int:
        if len(parts) == 3 and parts[1] == ":":
            number = parts[0].removeprefix("P")
            if not number.isdigit() or int(number) not in self.numbers:
                raise BadCondition(f"there is no thread {parts[0]}", at)
            return Register(self.numbers[int(number)], parts[2])
        if parts[0] == "&" and len(parts) == 2:
            self._variable(parts[1])
            return self._address(parts[1])
        name = parts[0]
        if not NAME.match(name):
            raise BadCondition(f"`{''.join(parts)}` is neither a register nor a variable", at)
        offset = 0
        if len(parts) > 1:
            index = [one for one in parts[1:] if one.isdigit()]
            if len(index) != 1:
                raise BadCondition(f"`{''.join(parts)}` is neither a register nor a variable", at)
            offset = int(index[0]) * (WORD if "[" in parts else 1)
        self._variable(name)
        return Observed(name, offset, 0)

    def _program(self, name: str, code: list[list[Operation]]) -> Program:
        sizes = self._sizes()
        variables = tuple(attrs.evolve(one, size=sizes[one.name]) for one in self.variables.values())
        threads = tuple(
            Thread(
                f"P{number}",
                groups["cta"],
                groups["gpu"],
                tuple(_sized(one, sizes) for one in operations),
                tuple(self.registers.get(number, {}).items()),
                groups.get("cluster"),
            )
            for (number, groups), operations in zip(self.threads, code, strict=True)
        )
        return Program(threads, variables, name, awaits_all=False)

    def _sizes(self) -> dict[str, int]:
        """The bytes of each variable: the extent of accesses to it, or of the variable that it aliases."""
        bases = {}
        for name in self.variables:
            base, seen = name, {name}
            while (further := self.variables[base].alias_of) is not None:
                if further in seen:
                    raise BadLitmus(f"{name} is an alias of itself", self.text.find("{") + 1)
                base = further
                seen.add(base)
            bases[name] = base
        largest: dict[str, int] = {}
        for name, size in self.accesses.items():
            largest[bases[name]] = max(largest.get(bases[name], 0), size)
        return {name: largest.get(base, WORD) for name, base in bases.items()}


def _sized(operation: Operation, sizes: dict[str, int]) -> Operation:
    """An access without a type covers the whole variable."""
    if isinstance(operation, Load | Store | Atomic) and not operation.size:
        count = len(operation.register) if isinstance(operation, Load) and isinstance(operation.register, tuple) else 1
        if isinstance(operation, Store) and isinstance(operation.value, tuple):
            count = len(operation.value)
        return attrs.evolve(operation, size=sizes[operation.address.variable] // count)
    if isinstance(operation, AsyncCopy) and not operation.size:
        return attrs.evolve(operation, size=min(sizes[operation.target.variable], sizes[operation.source.variable]))
    return operation


def _is_operator(word: str, kind: str) -> bool:
    if word == "cas" or word == "exch":
        return kind == "atomic"
    return word in (*ARITHMETIC, "inc", "dec")


def _split(text: str, at: int) -> list[tuple[str, int]]:
    """Splits operands at commas outside braces and brackets, each with its offset."""
    found: list[tuple[str, int]] = []
    depth, start = 0, 0
    for i, char in enumerate(text + ","):
        if char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        elif char == "," and depth <= 0:
            piece = text[start:i]
            found.append((piece.strip(), at + start + len(piece) - len(piece.lstrip())))
            start = i + 1
    return [] if len(found) == 1 and not found[0][0] else found


def _braced(text: str, at: int, count: int) -> list[tuple[str, int]]:
    """The elements of a vector operand."""
    if count == 1:
        return [(text, at)]
    inner = text.removeprefix("{").removesuffix("}")
    found = _split(inner, at + 1)
    if not text.startswith("{") or len(found) != count:
        raise BadLitmus(f"{count} elements in braces are needed", at)
    return found
