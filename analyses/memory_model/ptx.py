"""Threads of a PTX kernel as a program: the memory operations that they execute, from entry to exit.

What is a memory operation, a fence or a barrier, with which order and scope, is said by the instruction table; everything else is executed
by the machine, one thread at a time. A parameter of 64 bits without a value is a pointer to memory of its own. Addresses are one number in
every state space, so `cvta` changes nothing. A barrier waits for those of the threads that come to it: others are taken to come too.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ptxkit.analyses.memory_model.conditions import BadCondition, Compare, Condition, Either, parse_condition
from ptxkit.analyses.memory_model.enumerator import Register, Wanted
from ptxkit.analyses.memory_model.evaluation import Bits, CannotEvaluate, evaluator
from ptxkit.analyses.memory_model.expressions import COPY, MASK, Function, signed
from ptxkit.analyses.memory_model.litmus import Litmus
from ptxkit.analyses.memory_model.paths import CannotFollow
from ptxkit.analyses.memory_model.program import (
    PROXIES,
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
from ptxkit.checking import bounds
from ptxkit.demangling import matching
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.notation import Call, Memory
from ptxkit.isa.types import types
from ptxkit.names import Kind, Names, Symbol, resolve
from ptxkit.syntax import Index, constant_value, nodes, parse, syntax_errors

BUFFER = 1 << 16
"""Bytes of the memory that a pointer parameter points to."""
PAGE = 4096
"""Variables are apart by as much at least."""
END = "%end"
WARP = 32
HALF, LOW = 32, (1 << 32) - 1
"""A barrier object: its expected arrivals above, those that came below."""
THREAD = re.compile(r"\s*(\d+)\s*:\s*(\d+)\s*$")


class BadQuestion(Exception):
    """A kernel, a thread or a condition that is not there. `line` and `column` count from 1; 0 if there is none."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@frozen
class ThreadIndex:
    """A thread that runs: its CTA and its index there."""

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
    """The test that asks whether threads of a kernel may end so.

    `threads` like `0:0,0:1,1:0`, `parameters` like `n=4`, `exists` like `%r1@0:1 == 1`: register, CTA, thread; or a variable or parameter
    for the first bytes of its memory. Without `exists` the question is for all registers that reads write, and answered with yes. Raises
    BadQuestion, or CannotFollow.
    """
    running = _thread_indices(threads)
    program, keys = program_of(text, path, running, kernel=kernel, numbers=_numbers(parameters))
    if exists is None:
        return Litmus(program, "exists", _anything(program))
    return Litmus(program, "exists", _condition(exists, running, program, keys))


def program_of(
    text: str, path: str, running: tuple[ThreadIndex, ...], *, kernel: str | None = None, numbers: Mapping[str, int] | None = None
) -> tuple[Program, dict[str, str]]:
    """What these threads of a kernel execute, and the program's names of the registers. Raises BadQuestion, or CannotFollow."""
    module = parse(text, path)
    errors = [one for one in syntax_errors(module) if one.severity.value == "error"]
    if errors:
        raise BadQuestion(errors[0].message, errors[0].span.line, errors[0].span.column)
    return _Kernel(module, kernel, running, dict(numbers or {})).program()


def _anything(program: Program) -> Condition:
    """A condition that is true of every final state and speaks of every register that a read writes."""
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
    """An instruction of the body in document order, or a label; `path` is where its block stands."""

    node: nodes.Instruction | nodes.Label
    bound: Bound | None
    block: tuple[int, ...]
    line: int


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
        self.statements = list(self._statements())
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

    def _statements(self) -> Iterator[_Statement]:
        """The body, blocks within blocks included."""
        forms = bounds(self.names)
        body = self.function.body
        assert body is not None
        stack: list[tuple[tuple[int, ...], Iterator[tuple[int, nodes.Node]], Iterator[Any]]] = [
            ((self.at, 1), iter(enumerate(body.children)), iter(forms.of((self.at, 1))))
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
                    stack.append((inner, iter(enumerate(node.children)), iter(forms.of(inner))))
                    break
            else:
                stack.pop()

    def program(self) -> tuple[Program, dict[str, str]]:
        """The program, and the names under which it knows the registers of the text."""
        threads = tuple(
            Thread(str(thread_index), thread_index.cta, 0, (*self._code(thread_index), Label(END))) for thread_index in self.running
        )
        return Program(threads, tuple(self.variables.values()), self.function.name, awaits_all=False), self.first_keys

    def _code(self, thread_index: ThreadIndex) -> Iterator[Operation]:
        for number, one in enumerate(self.statements):
            if isinstance(one.node, nodes.Label):
                yield Label(self._label(one.node.name.text, one.block), one.line)
                continue
            guard = one.node.guard
            if one.bound is None:
                raise CannotFollow(f"`{one.node.opcode.text}` is no instruction that is known", one.line)
            made = list(_Writer(self, thread_index, one).operations())
            if guard is None:
                yield from made
                continue
            predicate = self._register(guard.predicate.text, one.block)
            if one.bound.flow in ("branch", "return", "exit", "trap") and len(made) == 1 and isinstance(made[0], Branch):
                yield attrs.evolve(made[0], function=IS_FALSE if guard.negated else IS_TRUE, operands=(predicate,))
                continue
            skip = f"%skip{number}"
            yield Branch(skip, IS_TRUE if guard.negated else IS_FALSE, (predicate,), text=one.node.body_text.strip(), line=one.line)
            yield from made
            yield Label(skip, one.line)

    def _label(self, name: str, block: tuple[int, ...]) -> str:
        symbol = self.names.scopes[block].lookup(name)
        return f"{name}.{hash_of(symbol)}" if symbol is not None else name

    def _register(self, name: str, block: tuple[int, ...]) -> str:
        """The name of a register in the program: that in the text, and more where several have the same."""
        symbol = self.names.scopes[block].lookup(name)
        if symbol is None:
            raise CannotFollow(f"there is no register {name}")
        known = self.keys.setdefault(id(symbol), {})
        if name not in known:
            known[name] = name if name not in self.first_keys else f"{name}#{len(self.keys)}"
            self.first_keys.setdefault(name, known[name])
        return known[name]

    def temporary(self) -> str:
        """A register that the text does not have."""
        self.temporaries += 1
        return f"%temporary{self.temporaries}"

    def address_of(self, symbol: Symbol, thread_index: ThreadIndex) -> int:
        """The address of a variable, as a thread sees it."""
        space = (symbol.space or "").split("::")[0]
        name = symbol.name
        if space == ".shared":
            name = f"{name}@{thread_index.cta}"
        elif space == ".local":
            name = f"{name}@{thread_index}"
        size = _size(symbol)
        return self.variable(name, size, "shared" if space == ".shared" else "global", thread_index.cta if space == ".shared" else None)

    def variable(self, name: str, size: int, space: str, cta: int | None) -> int:
        """The address of a variable of the program, which is made if it is not there."""
        found = self.variables.get(name)
        if found is None:
            found = self.variables[name] = Variable(name, 0, size, space=space, cta=cta, base=self.end)
            self.end += -(-size // PAGE) * PAGE + PAGE
        return found.base

    def parameter(self, name: str, offset: int, size: int, symbol: Symbol, line: int) -> int:
        """The value of a parameter, or of a part of it."""
        if name in self.numbers:
            return self.numbers[name] >> 8 * offset & ((1 << 8 * size) - 1)
        if size != 8:
            raise CannotFollow(f"parameter {name} has no value: --param {name}=N", line)
        return self.variable(name if not offset else f"{name}+{offset}", BUFFER, "global", None)


IS_TRUE = Function("setp.ne", lambda a: int(a != 0))
IS_FALSE = Function("setp.eq", lambda a: int(a == 0))


def hash_of(symbol: Symbol) -> str:
    """What tells labels of one name in several blocks apart."""
    return ".".join(map(str, symbol.path))


def _size(symbol: Symbol) -> int:
    """The bytes of a variable."""
    bits = types()[symbol.type].bits if symbol.type in types() else 64
    count = symbol.vector
    for one in symbol.dimensions:
        count *= one if one is not None else BUFFER // max(bits // 8, 1)
    return max(bits * count // 8, 1)


class _Writer:
    """One instruction for one thread."""

    def __init__(self, kernel: _Kernel, thread_index: ThreadIndex, statement: _Statement) -> None:
        assert isinstance(statement.node, nodes.Instruction) and statement.bound is not None
        self.kernel = kernel
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
            yield Branch(END, text=bound.opcode, line=self.line)
        elif bound.flow == "branch":
            target = self.node.operands[-1]
            yield Branch(self.kernel._label(target.text, self.block), text=self.node.body_text.strip(), line=self.line)
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
        elif bound.barrier:
            yield from self._barrier()
        elif bound.asynchronous and not bound.memory:
            yield from self._group()
        elif self._memory() and not self._parameter():
            yield from self._access()
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
        """What an operand that is read has for a value."""
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
            return self.kernel._register(name, self.block)
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
            **dict.fromkeys(("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z", "%gridid", "%cluster_ctarank"), 0),
            **dict.fromkeys(("%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z", "%cluster_nctarank"), 1),
            "%clusterid.x": self.thread_index.cta,
            "%nclusterid.x": ctas,
        }
        if name not in values:
            raise self.refuse(f"`{name}`")
        return values[name]

    def _declared(self) -> int:
        """The block size that `.reqntid` gives."""
        match = re.search(r"\.reqntid\s+(\d+)", self.kernel.function.header.text)
        return int(match.group(1)) if match else 0

    def made(self, function: Callable[..., int], *operands: Operand) -> Operand:
        """The function of operands, computed before the instruction."""
        if all(isinstance(one, int) for one in operands):
            return function(*operands) & MASK
        name = self.kernel.temporary()
        self.before.append(Compute(name, function, operands, line=self.line))
        return name

    def address(self, node: nodes.Node) -> Operand:
        """The address that `[a+4]` means."""
        if not isinstance(node, nodes.Address):
            return self.value(node)
        base = self.value(node.base)
        offset = node.offset
        if offset is None:
            return base
        return self.made(Function("add", lambda a, b: a + b), base, node.offset_sign * int(constant_value(offset) or 0))

    def placed(self, name: str) -> Address:
        """Where the operand of this name points to."""
        operand = self.bound.operand(name)
        if operand is None:
            raise self.refuse()
        value = self.address(self.part(operand))
        return Address("", 0, value) if isinstance(value, str) else Address("", value)

    def targets(self, operand: BoundOperand) -> list[str | None]:
        """The registers that an operand writes; None for `_`."""
        node = self.part(operand)
        elements = node.elements if isinstance(node, nodes.Vector) else (node,)
        return [None if one.text == "_" else self.kernel._register(one.text, self.block) for one in elements]

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
        if any(one.is_async for one in memory):
            yield from self._copy()
            return
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
        data = [o for o in bound.operands if o.name != one.operand and o.name not in ("policy",)]
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
        if set(kinds) != {"read", "write"} or any(one.mechanism == "mbarrier" for one in bound.completes):
            raise self.refuse("its completion is told to an mbarrier, or it reduces")
        operand = bound.operand("n") or bound.operand("size")
        size = self.value(self.part(operand)) if operand is not None else 0
        if not isinstance(size, int) or bound.operand("src") is not None or bound.operand("ignore") is not None:
            raise self.refuse("how much it copies is not known")
        proxy = "async" if kinds["write"].proxy == "async" else "generic"
        yield AsyncCopy(self.placed(kinds["write"].operand), self.placed(kinds["read"].operand), size, proxy, self.line)

    def _group(self) -> Iterator[Operation]:
        """Committing a group of copies, and waiting. A group is taken for one copy."""
        for one in self.bound.asynchronous:
            if one.action == "wait":
                operand = self.bound.operand(one.operand) if one.operand else None
                pending = self.value(self.part(operand)) if operand is not None else 0
                yield AsyncWait(pending if isinstance(pending, int) else 0, self.line)
            elif one.action not in ("commit", "open"):
                raise self.refuse()

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
        """A barrier object is a word: how many arrivals complete a phase, in its upper half, and how many there were, in its lower one.

        To make it, or to end it, is a weak write. An arrival adds to it, a test reads it, with the order and the scope that they have:
        so a test that sees the phase complete observes all its arrivals, as they are read-modify-writes (8.9.2, 9.7.14.15).
        """
        bound = self.bound
        actions = {one.action for one in bound.barrier}
        address = self.placed("m")
        if bound.has(".noComplete") or bound.has(".arrive_drop") or not actions <= {"init", "inval", "arrive", "wait"} or not actions:
            raise self.refuse("only mbarriers without transactions are followed")
        if actions & {"init", "inval"}:
            count = bound.operand("count")
            value = self.made(Function("shl", lambda n: n << HALF), self.sources(count)[0]) if count is not None else 0
            yield Store(address, value, size=8, line=self.line)
            return
        sem, scope = self._order(), self._scope()
        written = next((o for o in bound.operands if o.writes), None)
        register = self.targets(written)[0] if written is not None else None
        if "arrive" in actions:
            count = bound.operand("count")
            number = self.sources(count)[0] if count is not None else 1
            yield Atomic(register, "add", address, (number,), sem, scope, 8, line=self.line)
            return
        word = self.kernel.temporary()
        yield Load(word, address, sem, scope, 8, line=self.line)
        parity = bound.operand("parity")
        asked = parity or bound.operand("state")
        if register is None or asked is None:
            raise self.refuse()
        function = Function("phase", _is_over if parity is None else _is_over_by_parity)
        yield Compute(register, function, (word, self.sources(asked)[0]), self._text(), self.line)

    def _computed(self) -> Iterator[Operation]:
        """What is no memory operation."""
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
        node = self.part(operand)
        base = node.base if isinstance(node, nodes.Address) else node
        symbol = self.kernel.names.scopes[self.block].lookup(base.text)
        if symbol is None or symbol.kind is not Kind.PARAMETER:
            raise self.refuse("the address of a parameter")
        start = 0
        if isinstance(node, nodes.Address) and node.offset is not None:
            start = node.offset_sign * int(constant_value(node.offset) or 0)
        size = types()[self.bound.type].bits // 8
        count = len(self.targets(target))
        return [self.kernel.parameter(symbol.name, start + i * size, size, symbol, self.line) for i in range(count)]

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


def _phase(word: int) -> int:
    """The phase of a barrier object that is not complete."""
    return (word & LOW) // max(word >> HALF, 1)


def _is_over(word: int, state: int) -> int:
    return int(_phase(word) > _phase(state))


def _is_over_by_parity(word: int, parity: int) -> int:
    return int(_phase(word) & 1 != parity & 1)


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
    """A constant as the bits of a type."""
    if isinstance(constant, float):
        if kind == ".f32" or text.lower().startswith("0f"):
            return int.from_bytes(struct.pack("<f", constant), "little")
        return int.from_bytes(struct.pack("<d", constant), "little")
    return constant & MASK
