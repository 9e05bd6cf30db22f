"""Threads of a PTX kernel as a program: the memory operations that they execute, from entry to exit.

The instruction table says what is a memory operation, a fence or a barrier, with which order and scope; everything else is executed by the
machine, one thread at a time. A 64-bit parameter without a value is a pointer to its own buffer. An address is the same number in every
state space, so `cvta` is the identity. A barrier waits for those of the threads that reach it: all others are assumed to reach it, too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from ptxkit.analyses.memory_model.conditions import BadCondition, Compare, Condition, Either, parse_condition
from ptxkit.analyses.memory_model.enumerator import Register, Wanted
from ptxkit.analyses.memory_model.evaluation import Bits, CannotEvaluate, evaluator
from ptxkit.analyses.memory_model.expressions import COPY, MASK, Function, signed
from ptxkit.analyses.memory_model.litmus import Litmus
from ptxkit.analyses.memory_model.mbarriers import is_over, is_over_by_parity, made, operand, pending_count
from ptxkit.analyses.memory_model.paths import CannotFollow
from ptxkit.analyses.memory_model.program import (
    PROXIES,
    Address,
    AsyncAccess,
    AsyncArrive,
    AsyncCommit,
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
from ptxkit.checking import bounds
from ptxkit.demangling import matching
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Call, Memory
from ptxkit.isa.types import types
from ptxkit.names import Kind, Names, Symbol, resolve
from ptxkit.syntax import Index, constant_value, nodes, parse, syntax_errors

BUFFER = 1 << 16
"""Bytes of the buffer behind a pointer parameter."""
PAGE = 4096
"""Minimum distance between variables."""
END = "%end"
WARP = 32
MBARRIER = 8
"""Bytes of an mbarrier."""
THREAD = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*$")


class BadQuestion(Exception):
    """A kernel, thread or condition that does not exist. `line` and `column` count from 1; 0 if there is none."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@frozen
class ThreadIndex:
    """A running thread: its CTA and its index there."""

    cta: int
    thread: int

    def __str__(self) -> str:
        return f"{self.cta}:{self.thread}"


def litmus_of(
    text: str,
    path: str,
    threads: str,
    *,
    kernel: str | None = None,
    parameters: Sequence[str] = (),
    exists: str | None = None,
) -> Litmus:
    """The test that asks whether threads of a kernel may end in a given state.

    `threads` like `0:0,0:1,1:0`, `parameters` like `n=4`, `exists` like `%r1@0:1 == 1`: register, CTA, thread; or a variable or parameter
    for the first bytes of its memory. Without `exists`, the question concerns all registers that reads write, and its answer is always yes.
    Raises BadQuestion, or CannotFollow.
    """
    running = _thread_indices(threads)
    program, keys = program_of(text, path, running, kernel=kernel, numbers=_numbers(parameters))
    if exists is None:
        return Litmus(program, "exists", _anything(program))
    return Litmus(program, "exists", _condition(exists, running, program, keys))


def program_of(
    text: str, path: str, running: tuple[ThreadIndex, ...], *, kernel: str | None = None, numbers: Mapping[str, int] | None = None
) -> tuple[Program, dict[str, str]]:
    """The code that these threads of a kernel execute, and the program's names of the registers. Raises BadQuestion, or CannotFollow."""
    module = parse(text, path)
    errors = [one for one in syntax_errors(module) if one.severity.value == "error"]
    if errors:
        raise BadQuestion(errors[0].message, errors[0].span.line, errors[0].span.column)
    return _Kernel(module, kernel, running, dict(numbers or {})).program()


def _anything(program: Program) -> Condition:
    """A condition that holds in every final state and mentions every register that a read writes."""
    condition: Condition = Compare(0, "==", 0)
    for t, thread in enumerate(program.threads):
        for one in thread.code:
            if isinstance(one, Load | Atomic) and one.register is not None:
                for name in (one.register,) if isinstance(one.register, str) else one.register:
                    condition = Either(condition, Compare(Register(t, name), "==", Register(t, name)))
    return condition


def _thread_indices(threads: str) -> tuple[ThreadIndex, ...]:
    found = []
    for one in threads.split(","):
        match = THREAD.match(one)
        if match is None:
            raise BadQuestion(f"--threads is a list like 0:0,0:1,1:0 (CTA:thread), not {threads!r}")
        found.append(ThreadIndex(int(match.group(1)), int(match.group(2))))
    if len(set(found)) < len(found):
        raise BadQuestion("--threads names a thread twice")
    return tuple(found)


def _numbers(parameters: Sequence[str]) -> dict[str, int]:
    found = {}
    for one in parameters:
        name, _, value = one.partition("=")
        try:
            found[name] = int(value, 0)
        except ValueError:
            raise BadQuestion(f"--param is like n=4, not {one!r}") from None
    return found


def _condition(text: str, running: tuple[ThreadIndex, ...], program: Program, keys: dict[str, str]) -> Condition:
    def state(parts: Sequence[str], at: int) -> Wanted | int:
        if "@" in parts:
            if len(parts) != 5 or parts[1] != "@" or parts[3] != ":":
                raise BadCondition("a register is written like %r1@0:1 (CTA:thread)", at)
            thread_index = ThreadIndex(int(parts[2]), int(parts[4])) if parts[2].isdigit() and parts[4].isdigit() else None
            if thread_index not in running:
                raise BadCondition(f"thread {parts[2]}:{parts[4]} is not among --threads", at)
            if parts[0] not in keys:
                raise BadCondition(f"there is no register {parts[0]}", at)
            return Register(running.index(thread_index), keys[parts[0]])
        offset = int(parts[2]) if len(parts) == 3 and parts[1] == "+" and parts[2].isdigit() else 0
        variable = next((one for one in program.variables if one.name == parts[0]), None)
        if variable is None or (len(parts) > 1 and not offset):
            raise BadCondition(f"there is no variable {''.join(parts)}", at)
        return Observed(parts[0], offset, min(4, variable.size - offset))

    try:
        return parse_condition(text, state)
    except BadCondition as error:
        raise BadQuestion(f"--exists: {error} (character {error.at + 1})") from None


@attrs.frozen(eq=False)
class _Statement:
    """An instruction of a function in document order, or a label; `block` is the path of its block."""

    node: nodes.Instruction | nodes.Label
    bound: Bound | None
    block: tuple[int, ...]
    line: int


@attrs.frozen(eq=False)
class _Frame:
    """A call being followed: the suffix of its labels, its return point, and its parameters."""

    function: int
    suffix: str = ""
    end: str = END
    parameters: Mapping[int, str] = attrs.field(factory=dict)
    """The registers that carry parameters, by the `id` of their symbols."""
    callers: tuple[int, ...] = ()


class _Kernel:
    def __init__(self, module: nodes.Module, name: str | None, running: tuple[ThreadIndex, ...], numbers: dict[str, int]) -> None:
        self.module = module
        self.names: Names = resolve(module)
        self.index = Index(module)
        self.running = running
        self.numbers = numbers
        self.at = self._chosen(name)
        function = module.children[self.at]
        assert isinstance(function, nodes.Function) and function.body is not None
        self.function = function
        self.target = next((one.words[0] for one in module.children if isinstance(one, nodes.Target) and one.words), "sm_90")
        self.forms = bounds(self.names)
        self.clusters = self._cluster_size()
        self.calls = 0
        self.pieces: set[str] = set()
        self.variables: dict[str, Variable] = {}
        self.parameters: dict[int, str] = {}
        self.end = 1 << 20
        self.keys: dict[int, dict[str, str]] = {}
        self.first_keys: dict[str, str] = {}
        self.temporaries = 0

    def _chosen(self, name: str | None) -> int:
        entries = {
            one.name: i
            for i, one in enumerate(self.module.children)
            if isinstance(one, nodes.Function) and one.is_entry and one.body is not None
        }
        if name is not None:
            mine = matching(name, entries)
            if len(mine) != 1:
                raise BadQuestion(
                    f"{'no kernel' if not mine else 'several kernels are called'} {name}; there are {', '.join(entries) or 'none'}"
                )
            name = mine[0]
        if name is None and len(entries) != 1:
            raise BadQuestion(f"which kernel? -k {' or -k '.join(entries)}" if entries else "there is no kernel")
        return entries[name] if name is not None else next(iter(entries.values()))

    def _cluster_size(self) -> int:
        """The CTAs of a cluster, from `.reqnctapercluster`."""
        match = re.search(r"\.reqnctapercluster\s+([\d,\s]+)", self.function.header.text)
        return prod(int(one) for one in match.group(1).split(",") if one.strip()) if match else 1

    def _statements(self, at: int) -> Iterator[_Statement]:
        """The body of a function, nested blocks included."""
        function = self.module.children[at]
        assert isinstance(function, nodes.Function) and function.body is not None
        stack: list[tuple[tuple[int, ...], Iterator[tuple[int, nodes.Node]], Iterator[Any]]] = [
            ((at, 1), iter(enumerate(function.body.children)), iter(self.forms.of((at, 1))))
        ]
        while stack:
            path, rest, bound = stack[-1]
            for i, node in rest:
                if isinstance(node, nodes.Instruction):
                    found = next(bound)
                    line = self.index.span((*path, i)).line
                    yield _Statement(node, found if isinstance(found, Bound) else None, path, line)
                elif isinstance(node, nodes.Label):
                    yield _Statement(node, None, path, self.index.span((*path, i)).line)
                elif isinstance(node, nodes.Block):
                    inner = (*path, i)
                    stack.append((inner, iter(enumerate(node.children)), iter(self.forms.of(inner))))
                    break
            else:
                stack.pop()

    def program(self) -> tuple[Program, dict[str, str]]:
        """The program, and its names for the registers of the text."""
        threads = tuple(
            Thread(
                str(thread_index),
                thread_index.cta,
                0,
                (*self.code(thread_index, _Frame(self.at)), Label(END)),
                cluster=thread_index.cta // self.clusters,
            )
            for thread_index in self.running
        )
        return Program(threads, tuple(self.variables.values()), self.function.name, awaits_all=False), self.first_keys

    def code(self, thread_index: ThreadIndex, frame: _Frame) -> Iterator[Operation]:
        """The code that a thread executes in a function, with calls inlined."""
        for number, one in enumerate(self._statements(frame.function)):
            if isinstance(one.node, nodes.Label):
                yield Label(self.label(one.node.name.text, one.block, frame), one.line)
                continue
            guard = one.node.guard
            if one.bound is None:
                raise CannotFollow(f"`{one.node.opcode.text}` is no instruction that is known", one.line)
            operations = list(_Writer(self, thread_index, one, frame).operations())
            if guard is None:
                yield from operations
                continue
            predicate = self.register(guard.predicate.text, one.block)
            if one.bound.flow in ("branch", "return", "exit", "trap") and len(operations) == 1 and isinstance(operations[0], Branch):
                yield attrs.evolve(operations[0], function=IS_FALSE if guard.negated else IS_TRUE, operands=(predicate,))
                continue
            skip = f"%skip{number}{frame.suffix}"
            yield Branch(skip, IS_TRUE if guard.negated else IS_FALSE, (predicate,), text=one.node.body_text.strip(), line=one.line)
            yield from operations
            yield Label(skip, one.line)

    def label(self, name: str, block: tuple[int, ...], frame: _Frame) -> str:
        """The name of a label in the program."""
        symbol = self.names.scopes[block].lookup(name)
        return (f"{name}.{hash_of(symbol)}" if symbol is not None else name) + frame.suffix

    def register(self, name: str, block: tuple[int, ...]) -> str:
        """The name of a register in the program: as in the text, with a suffix if it is ambiguous."""
        symbol = self.names.scopes[block].lookup(name)
        if symbol is None:
            raise CannotFollow(f"there is no register {name}")
        known = self.keys.setdefault(id(symbol), {})
        if name not in known:
            is_own = block[0] == self.at and name not in self.first_keys
            known[name] = name if is_own else f"{name}#{len(self.keys)}"
            if is_own:
                self.first_keys[name] = known[name]
        return known[name]

    def called(self, name: str, frame: _Frame, line: int) -> _Frame:
        """The frame of a called function, without parameters. Raises CannotFollow if it is unsupported."""
        found = [
            i for i, one in enumerate(self.module.children) if isinstance(one, nodes.Function) and one.name == name and one.body is not None
        ]
        if not found:
            raise CannotFollow(f"{name} has no body here", line)
        callers = (*frame.callers, frame.function)
        if found[0] in callers:
            raise CannotFollow(f"{name} is recursive", line)
        self.calls += 1
        suffix = f"%{self.calls}"
        return _Frame(found[0], suffix, END + suffix, {}, callers)

    def formals(self, function: int) -> tuple[list[Symbol], list[Symbol]]:
        """The return and input parameters of a function, in the order of its header."""
        node = self.module.children[function]
        assert isinstance(node, nodes.Function)
        scope = self.names.scopes[(function, 1)]
        header: list[Symbol] = []
        while scope is not None and scope.path and scope.path[0] == function:
            header += [one for one in scope.symbols.values() if one.path[1] == 0 and one.kind in (Kind.PARAMETER, Kind.REGISTER)]
            if scope.parent is None:
                break
            scope = scope.parent
        name = next(i for i, one in enumerate(node.header.children) if one.text.strip() == node.name)
        header.sort(key=lambda one: one.path)
        return [one for one in header if one.path[2] < name], [one for one in header if one.path[2] > name]

    def temporary(self) -> str:
        """A new register."""
        self.temporaries += 1
        return f"%temporary{self.temporaries}"

    def address_of(self, symbol: Symbol, thread_index: ThreadIndex) -> int:
        """The address of a variable, for a given thread."""
        space = (symbol.space or "").split("::")[0]
        name = symbol.name
        if space == ".shared":
            name = f"{name}@{thread_index.cta}"
        elif space == ".local":
            name = f"{name}@{thread_index}"
        size = _size(symbol)
        if space != ".shared":
            return self.variable(name, size, "global", None)
        first = thread_index.cta // self.clusters * self.clusters
        for cta in range(first, first + self.clusters):
            self.variable(f"{symbol.name}@{cta}", size, "shared", cta)
        return self.variable(name, size, "shared", thread_index.cta)

    def peer(self, address: int, rank: int, cta: int) -> int:
        """`mapa` (9.7.10.22): the address in the shared memory of the CTA of that rank in the cluster of `cta`."""
        for one in self.variables.values():
            if one.cta is not None and one.base <= address < one.base + one.size:
                there = cta // self.clusters * self.clusters + rank % self.clusters
                return self.variables[f"{one.name.rpartition('@')[0]}@{there}"].base + address - one.base
        return address

    def rank_of(self, address: int) -> int:
        """`getctarank` (9.7.10.23)."""
        for one in self.variables.values():
            if one.cta is not None and one.base <= address < one.base + one.size:
                return one.cta % self.clusters
        return 0

    def variable(self, name: str, size: int, space: str, cta: int | None) -> int:
        """The address of a program variable, which is created on demand."""
        found = self.variables.get(name)
        if found is None:
            found = self.variables[name] = Variable(name, 0, size, space=space, cta=cta, base=self.end)
            self.end += -(-size // PAGE) * PAGE + PAGE
        return found.base

    def parameter(self, name: str, offset: int, size: int, line: int) -> int:
        """The value of a parameter, or of part of it."""
        if name in self.numbers:
            return self.numbers[name] >> 8 * offset & ((1 << 8 * size) - 1)
        if size != 8:
            raise CannotFollow(f"parameter {name} has no value: --param {name}=N", line)
        return self.variable(name if not offset else f"{name}+{offset}", BUFFER, "global", None)


PROXY_OF = {"cp.async": "generic", "bulk": "async"}
"""The proxy of copies, by kind of group."""
IS_TRUE = Function("setp.ne", lambda a: int(a != 0))
IS_FALSE = Function("setp.eq", lambda a: int(a == 0))


def hash_of(symbol: Symbol) -> str:
    """A suffix that distinguishes equal labels of different blocks."""
    return ".".join(map(str, symbol.path))


def _size(symbol: Symbol) -> int:
    """The bytes of a variable."""
    bits = types()[symbol.type].bits if symbol.type in types() else 64
    count = symbol.vector
    for one in symbol.dimensions:
        count *= one if one is not None else BUFFER // max(bits // 8, 1)
    return max(bits * count // 8, 1)


class _Writer:
    """The operations of one instruction in one thread."""

    def __init__(self, kernel: _Kernel, thread_index: ThreadIndex, statement: _Statement, frame: _Frame) -> None:
        assert isinstance(statement.node, nodes.Instruction) and statement.bound is not None
        self.kernel = kernel
        self.frame = frame
        self.thread_index = thread_index
        self.node = statement.node
        self.bound: Bound = statement.bound
        self.block = statement.block
        self.line = statement.line
        self.before: list[Operation] = []

    def operations(self) -> Iterator[Operation]:
        found = list(self._operations())
        yield from self.before
        yield from found

    def refuse(self, why: str = "") -> CannotFollow:
        return CannotFollow(f"`{self.node.opcode.text}` is not followed" + (f": {why}" if why else ""), self.line)

    def _operations(self) -> Iterator[Operation]:
        bound = self.bound
        if bound.flow in ("return", "exit", "trap"):
            yield Branch(self.frame.end if bound.flow == "return" else END, text=bound.opcode, line=self.line)
        elif bound.flow == "branch":
            target = self.node.operands[-1]
            yield Branch(self.kernel.label(target.text, self.block, self.frame), text=self.node.body_text.strip(), line=self.line)
        elif bound.flow == "call":
            yield from self._call()
        elif bound.flow:
            raise self.refuse()
        elif "fence" in bound.effects:
            yield Fence(self._order(), self._scope(), self.line)
        elif any(one.startswith("proxy-fence-") for one in bound.effects):
            kind = next(one for one in bound.effects if one.startswith("proxy-fence-")).removeprefix("proxy-fence-")
            space = bound.slot(".ss").removeprefix(".").split("::")[0]
            yield ProxyFence(kind, (space,) if space else (), self.line)
        elif bound.form.mnemonic == "mbarrier":
            yield from self._mbarrier()
        elif bound.form.mnemonic in ("mapa", "getctarank"):
            yield self._of_cluster()
        elif any(one.action == "signal" for one in bound.asynchronous):
            yield from self._arrive_after_copies()
        elif bound.barrier:
            yield from self._barrier()
        elif bound.asynchronous and not bound.memory:
            yield from self._group()
        elif self._memory() and not self._parameter():
            yield from self._access()
        elif self._memory() and self._memory()[0].access == "write":
            yield from self._handing_over()
        elif "prefetch" in bound.effects or bound.form.mnemonic in ("nanosleep", "pragma"):
            return
        else:
            yield from self._computed()

    def _order(self) -> str:
        return self.bound._word("", self.bound.form.order).removeprefix(".")

    def _scope(self) -> str:
        scope = self.bound._word("", self.bound.form.scope).removeprefix(".")
        return {"gl": "gpu"}.get(scope, scope)

    def _memory(self) -> tuple[Memory, ...]:
        return self.bound.memory

    def _parameter(self) -> bool:
        operand = self.bound.operand(self.bound.memory[0].operand) if self.bound.memory else None
        return operand is not None and any(one.startswith(".param") for one in operand.spaces)

    # Operands.

    def part(self, operand: BoundOperand) -> nodes.Node:
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

    # Kinds of instructions.

    def _access(self) -> Iterator[Operation]:
        bound = self.bound
        memory = bound.memory
        if bound.form.mnemonic in ("st", "red") and memory[0].is_async:
            yield from self._asynchronous()
            return
        if any(one.is_async for one in memory):
            yield from self._copy()
            return
        yield from self._plain_access()

    def _plain_access(self) -> Iterator[Operation]:
        bound, memory = self.bound, self.bound.memory
        one = memory[0]
        order, scope = one.order.removeprefix(".") or "weak", one.scope.removeprefix(".") or None
        proxy = one.proxy if one.proxy in PROXIES else "generic"
        if len(memory) > 1 or order not in ("weak", "relaxed", "acquire", "release", "acq_rel"):
            raise self.refuse()
        if bound.type not in types():
            raise self.refuse()
        size = types()[bound.type].bits // 8
        if order != "weak" and scope is None:
            scope = "gpu"
        if order == "weak":
            scope = None
        address = self.placed(one.operand)
        data = [o for o in bound.operands if o.name != one.operand and o.name not in ("policy", "mbar")]
        if one.access == "read":
            yield from self._load(data[0], address, order, scope, size, proxy)
        elif one.access == "write":
            values = tuple(self.sources(data[0]))
            yield Store(address, values if len(values) > 1 else values[0], order, scope, size, proxy, self.line)
        else:
            yield from self._atomic(data, address, order, scope or "gpu", size, proxy)

    def _load(self, target: BoundOperand, address: Address, order: str, scope: str | None, size: int, proxy: str) -> Iterator[Operation]:
        names = [one or self.kernel.temporary() for one in self.targets(target)]
        yield Load(tuple(names) if len(names) > 1 else names[0], address, order, scope, size, proxy, self.line)
        if self.bound.type.startswith(".s") and size < 8:
            for name in names:
                mask = (1 << self.width(name)) - 1
                bits = 8 * size
                yield Compute(name, Function("cvt", _extended(bits, mask)), (name,), line=self.line)

    def _atomic(self, data: list[BoundOperand], address: Address, order: str, scope: str, size: int, proxy: str) -> Iterator[Operation]:
        bound = self.bound
        operator = (bound.slot(".op") or next((one for one in (".cas", ".add") if bound.has(one)), "")).removeprefix(".")
        kind = bound.type
        if kind.startswith((".f", ".bf")) or operator not in ("and", "or", "xor", "exch", "add", "inc", "dec", "min", "max", "cas"):
            raise self.refuse()
        if kind.startswith(".s") and operator in ("min", "max"):
            operator += ".s"
        written = [o for o in data if o.writes]
        values = tuple(value for o in data if not o.writes for value in self.sources(o))
        register = self.targets(written[0])[0] if written else None
        yield Atomic(register, operator, address, values, order, scope, size, proxy, self.line)

    def _copy(self) -> Iterator[Operation]:
        bound = self.bound
        kinds = {one.access: one for one in bound.memory}
        if set(kinds) != {"read", "write"}:
            raise self.refuse("it reduces")
        if bound.operand("map") is not None:
            raise self.refuse("which bytes it copies is said by a tensor map")
        if bound.operand("mask") is not None:
            raise self.refuse("it copies to several CTAs, or only some bytes")
        operand = bound.operand("n") or bound.operand("size")
        size = self.value(self.part(operand)) if operand is not None else 0
        if not isinstance(size, int) or bound.operand("src") is not None or bound.operand("ignore") is not None:
            raise self.refuse("how much it copies is not known")
        proxy = "async" if kinds["write"].proxy == "async" else "generic"
        target, source = self.placed(kinds["write"].operand), self.placed(kinds["read"].operand)
        yield AsyncCopy(target, source, size, proxy, self.line, self._counted())

    def _counted(self) -> Address | None:
        """The mbarrier that counts the bytes of an asynchronous operation, if any."""
        for one in self.bound.completes:
            if one.mechanism == "mbarrier":
                return self.placed(one.what)
        return None

    def _asynchronous(self) -> Iterator[Operation]:
        """`st.async`, `red.async` (9.7.10.12, 9.7.14.7)."""
        access, *more = self._plain_access()
        if more or not isinstance(access, Store | Atomic):
            raise self.refuse()
        yield AsyncAccess(access, self._counted(), self.line)

    def _arrive_after_copies(self) -> Iterator[Operation]:
        """`cp.async.mbarrier.arrive` (9.7.14.15.15)."""
        address = self.placed("m")
        if not self.bound.has(".noinc"):
            yield Atomic(None, "awaiting", address, (1,), "relaxed", "cta", MBARRIER, line=self.line)
        yield AsyncArrive(address, self.line)

    def _group(self) -> Iterator[Operation]:
        """Commits of copy groups, and waits."""
        for one in self.bound.asynchronous:
            if one.group not in PROXY_OF:
                raise self.refuse()
            if one.action == "commit":
                yield AsyncCommit(PROXY_OF[one.group], self.line)
            elif one.action == "wait" and one.operand:
                operand = self.bound.operand(one.operand)
                pending = self.value(self.part(operand)) if operand is not None else 0
                if not isinstance(pending, int):
                    raise self.refuse("how many groups may be in flight is not known")
                yield AsyncWait(pending, self.line, PROXY_OF[one.group], one.reading)
            elif one.action == "wait":
                yield AsyncCommit(PROXY_OF[one.group], self.line)
                yield AsyncWait(0, self.line, PROXY_OF[one.group])
            elif one.action != "open":
                raise self.refuse()

    def _of_cluster(self) -> Operation:
        """`mapa` and `getctarank`."""
        written = next(o for o in self.bound.operands if o.writes)
        (register,) = self.targets(written)
        operands = [value for o in self.bound.operands if not o.writes for value in self.sources(o)]
        kernel, cta = self.kernel, self.thread_index.cta
        if register is None:
            raise self.refuse()
        if len(operands) == 1:
            return Compute(register, Function("getctarank", kernel.rank_of), tuple(operands), self._text(), self.line)
        return Compute(register, Function("mapa", lambda a, rank: kernel.peer(a, rank, cta)), tuple(operands), self._text(), self.line)

    def _barrier(self) -> Iterator[Operation]:
        bound = self.bound
        actions = [one.action for one in bound.barrier]
        scope = self._scope()
        if scope == "cluster":
            yield Barrier("arrive" if "arrive" in actions else "wait", cluster=True, is_relaxed=bound.has(".relaxed"), line=self.line)
            return
        if scope != "cta" or not set(actions) <= {"arrive", "wait", "reduce"} or not bound.barrier[0].operand:
            raise self.refuse()
        operand = bound.operand(bound.barrier[0].operand)
        if operand is None:
            raise self.refuse()
        name = self.value(self.part(operand))
        if "reduce" in actions:
            target = next(o for o in bound.operands if o.writes)
            predicate = next(o for o in bound.operands if o.name == "c")
            operator = "popc" if bound.has(".popc") else bound.slot(".op").removeprefix(".")
            register = self.targets(target)[0]
            yield Barrier("red", name, None, False, False, register, operator, self.sources(predicate)[0], self.line)
            return
        yield Barrier("sync" if "wait" in actions else "arrive", name, line=self.line)

    def _mbarrier(self) -> Iterator[Operation]:
        """Operations on an mbarrier, which is a word as defined in `mbarriers`.

        Initializing or invalidating it is a weak write. An arrival is an atomic function of it, a test reads it, each with its order and
        scope: so a test that sees the phase complete observes all its arrivals, which are read-modify-writes (8.9.2, 9.7.14.15).
        """
        bound = self.bound
        actions = {one.action for one in bound.barrier}
        written = [o for o in bound.operands if o.writes]
        targets = [name for o in written for name in self.targets(o)]
        register = targets[0] if targets else None
        if any(targets[1:]) or bound.operand("mask") is not None:
            raise self.refuse("it concerns several CTAs, or gives more than a phase")
        if bound.has(".pending_count"):
            if register is not None:
                yield Compute(register, Function("pending_count", pending_count), (self._source("state", 0),), self._text(), self.line)
            return
        address = self.placed("m")
        if actions & {"init", "inval"}:
            yield Store(address, self.made(Function("mbarrier", made), self._source("count", 0)), size=MBARRIER, line=self.line)
            return
        sem, scope = self._order(), self._scope()
        if "wait" in actions:
            if register is None:
                raise self.refuse()
            word = self.kernel.temporary()
            yield Load(word, address, sem, scope, MBARRIER, line=self.line)
            by_parity = bound.operand("parity") is not None
            function = Function("phase", is_over_by_parity if by_parity else is_over)
            asked = self._source("parity" if by_parity else "state", 0)
            yield Compute(register, function, (word, asked), self._text(), self.line)
            return
        transactions = self._source("tx", 0)
        if "arrive" in actions:
            operator = "arrive_drop" if bound.has(".arrive_drop") else "arrive"
            value = self.made(Function("arrivals", operand), self._source("count", 1), transactions)
        elif "expect" in actions:
            operator, value = "expect_tx", transactions
        elif bound.completes:
            operator, value = "complete_tx", transactions
        else:
            raise self.refuse()
        yield Atomic(register, operator, address, (value,), sem, scope, MBARRIER, line=self.line)

    def _source(self, name: str, without: int) -> Operand:
        """The value of the operand of this name, or `without` if the instruction has none."""
        operand = self.bound.operand(name)
        return self.sources(operand)[0] if operand is not None else without

    def _call(self) -> Iterator[Operation]:
        """The code of a called function, with its parameters renamed to the arguments (7.1)."""
        kernel, frame = self.kernel, self.frame
        target = self.bound.operand("f")
        name = self.part(target) if target is not None else None
        if name is None or not isinstance(name, nodes.Name) or self.bound.operand("targets") is not None:
            raise self.refuse("which function it calls is not known")
        inner = kernel.called(name.text, frame, self.line)
        returned, taken = kernel.formals(inner.function)
        handed: dict[int, str] = {}
        after: list[Operation] = []
        for formals, what in ((returned, "ret"), (taken, "params")):
            operand = self.bound.operand(what)
            group = self.part(operand) if operand is not None else None
            actual = group.elements if isinstance(group, nodes.Group) else ()
            if len(actual) != len(formals):
                raise self.refuse("its parameters are not those of the function")
            for formal, given in zip(formals, actual, strict=True):
                symbol = kernel.names.scopes[self.block].lookup(given.text)
                if symbol is not None and symbol.kind is Kind.PARAMETER and formal.kind is Kind.PARAMETER:
                    handed[id(formal)] = self._handed(symbol)
                    continue
                bits = types()[formal.type].bits if formal.type in types() else 64
                inside = f"%param.{hash_of(formal)}{inner.suffix}"
                handed[id(formal)] = inside
                piece = kernel.register(formal.name, (inner.function, 1)) if formal.kind is Kind.REGISTER else f"{inside}+0.{bits // 8}"
                kernel.pieces.add(piece)
                if symbol is not None and symbol.kind is Kind.PARAMETER:
                    outside: Operand = f"{self._handed(symbol)}+0.{bits // 8}"
                    kernel.pieces.add(str(outside))
                else:
                    outside = self.value(given, formal.type or "")
                if what == "params":
                    yield Compute(piece, COPY, (outside,), self._text(), self.line)
                elif isinstance(outside, str):
                    after.append(Compute(outside, COPY, (piece,), self._text(), self.line))
        yield from kernel.code(self.thread_index, attrs.evolve(inner, parameters=handed))
        yield Label(inner.end, self.line)
        yield from after

    def _handed(self, symbol: Symbol) -> str:
        """The register that carries a parameter of a call, or of this function."""
        return self.frame.parameters.get(id(symbol)) or f"%param.{hash_of(symbol)}{self.frame.suffix}"

    def _is_of_call(self, symbol: Symbol) -> bool:
        """Whether a parameter belongs to a call rather than to the kernel."""
        return symbol.path[0] != self.kernel.at or symbol.path[1] != 0

    def _handing_over(self) -> Iterator[Operation]:
        """`st.param` of an argument or a return value."""
        operand = self.bound.operand(self.bound.memory[0].operand)
        value = next(o for o in self.bound.operands if o.name != self.bound.memory[0].operand)
        assert operand is not None
        symbol, start = self._parameter_at(operand)
        size = types()[self.bound.type].bits // 8
        for i, one in enumerate(self.sources(value)):
            piece = f"{self._handed(symbol)}+{start + i * size}.{size}"
            self.kernel.pieces.add(piece)
            function = Function("st.param", lambda a, mask=(1 << 8 * size) - 1: a & mask)
            yield Compute(piece, function, (one,), self._text(), self.line)

    def _computed(self) -> Iterator[Operation]:
        """Non-memory instructions."""
        copied = self._copied()
        written = [o for o in self.bound.operands if o.writes]
        if not written:
            if self.bound.memory:
                raise self.refuse()
            return
        if copied is not None:
            (target,) = written
            names = self.targets(target)
            for name, value in zip(names, copied, strict=True):
                if name is not None:
                    mask = (1 << self.width(name)) - 1
                    yield Compute(name, Function("mov", lambda a, mask=mask: a & mask), (value,), self._text(), self.line)
            return
        yield from self._evaluated(written)

    def _text(self) -> str:
        return " ".join(self.node.body_text.split()).removesuffix(";")

    def _copied(self) -> list[Operand] | None:
        """The values that the instruction copies, if it does nothing else."""
        for conditional in self.bound.form.computes:
            if conditional.when and not self.bound.holds(conditional.when):
                continue
            said = conditional.what.value
            if isinstance(said, str) and (operand := self.bound.operand(said)) is not None and operand.reads:
                return self.sources(operand)
            if isinstance(said, Call) and said.operator == "parameter":
                return self._parameters()
            if isinstance(said, Call) and said.operator in ("add", "sub") and isinstance(said.arguments[1], Call):
                first = said.arguments[0]
                if said.arguments[1].operator == "window" and isinstance(first, str):
                    operand = self.bound.operand(first)
                    return self.sources(operand) if operand is not None else None
        return None

    def _parameters(self) -> list[Operand]:
        operand = self.bound.operand(self.bound.memory[0].operand)
        target = next(o for o in self.bound.operands if o.writes)
        if operand is None:
            raise self.refuse()
        symbol, start = self._parameter_at(operand)
        size = types()[self.bound.type].bits // 8
        count = len(self.targets(target))
        if not self._is_of_call(symbol):
            return [self.kernel.parameter(symbol.name, start + i * size, size, self.line) for i in range(count)]
        pieces = [f"{self._handed(symbol)}+{start + i * size}.{size}" for i in range(count)]
        if not self.kernel.pieces.issuperset(pieces):
            raise self.refuse("it reads a part of a parameter that was not stored as such")
        return list(pieces)

    def _parameter_at(self, operand: BoundOperand) -> tuple[Symbol, int]:
        """The parameter that contains an address, and the offset in it."""
        node = self.part(operand)
        base = node.base if isinstance(node, nodes.Address) else node
        symbol = self.kernel.names.scopes[self.block].lookup(base.text)
        if symbol is None or symbol.kind is not Kind.PARAMETER:
            raise self.refuse("the address of a parameter")
        start = 0
        if isinstance(node, nodes.Address) and node.offset is not None:
            start = node.offset_sign * int(constant_value(node.offset) or 0)
        return symbol, start

    def _evaluated(self, written: list[BoundOperand]) -> Iterator[Operation]:
        read = [o for o in self.bound.operands if o.reads or o.role in ("imm", "sym")]
        groups = [self.sources(o) for o in read]
        vectors = [isinstance(self.part(o), nodes.Vector) for o in read]
        constants = {o.name: value for o in read if (value := _constant(self.part(o))) is not None}
        try:
            run = evaluator(self.bound, self.kernel.target, constants)
        except CannotEvaluate as error:
            raise self.refuse(str(error)) from None
        flat = [value for group in groups for value in group]
        counts = [len(group) for group in groups]

        def whole(*values: int) -> tuple[Bits, ...]:
            rest = list(values)
            given: list[Bits] = []
            for count, is_vector in zip(counts, vectors, strict=True):
                them, rest = rest[:count], rest[count:]
                given.append(tuple(them) if is_vector else them[0])
            return run(*given)

        results: list[tuple[str, Function]] = []
        for k, o in enumerate(written):
            kind = o.types[0] if o.types else ""
            for i, name in enumerate(self.targets(o)):
                if name is not None:
                    results.append((name, Function(self.bound.form.mnemonic, _picked(whole, k, i, kind, self.width(name)))))
        if len(results) == 1:
            name, function = results[0]
            yield Compute(name, function, tuple(flat), self._text(), self.line)
            return
        kept = [(name, self.kernel.temporary(), function) for name, function in results]
        for _, temporary, function in kept:
            yield Compute(temporary, function, tuple(flat), self._text(), self.line)
        for name, temporary, _ in kept:
            yield Compute(name, COPY, (temporary,), self._text(), self.line)


def _picked(whole: Callable[..., tuple[Bits, ...]], k: int, i: int, kind: str, width: int) -> Callable[..., int]:
    bits = types()[kind].bits if kind in types() else width
    is_signed = kind.startswith(".s") and bits < width

    def call(*values: int) -> int:
        result = whole(*values)[k]
        one = result[i] if isinstance(result, tuple) else result
        if is_signed:
            one = signed(one, bits)
        return one & ((1 << width) - 1)

    return call


def _extended(bits: int, mask: int) -> Callable[[int], int]:
    return lambda value: signed(value, bits) & mask


def _constant(node: nodes.Node) -> int | float | None:
    return None if isinstance(node, nodes.Address | nodes.Vector) else constant_value(node)


def _bits(constant: int | float, text: str, kind: str) -> int:
    """The bits of a constant of a type."""
    if isinstance(constant, float):
        if kind == ".f32" or text.lower().startswith("0f"):
            return int.from_bytes(struct.pack("<f", constant), "little")
        return int.from_bytes(struct.pack("<d", constant), "little")
    return constant & MASK
