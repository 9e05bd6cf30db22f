"""A PTX kernel for the memory model: its variables and registers, and the statements that each thread executes, calls inlined."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import attrs

from ptxkit.analyses.memory_model.expressions import Function
from ptxkit.analyses.memory_model.paths import CannotFollow
from ptxkit.analyses.memory_model.program import Branch, Label, Operation, Program, Thread, Variable
from ptxkit.checking import bounds
from ptxkit.demangling import matching
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Kind, Names, Symbol, resolve
from ptxkit.syntax import Index, nodes

BUFFER = 1 << 16
"""Bytes of the buffer behind a pointer parameter."""
PAGE = 4096
"""Minimum distance between variables."""
END = "%end"


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


@frozen(eq=False)
class Statement:
    """An instruction of a function in document order, or a label; `block` is the path of its block."""

    node: nodes.Instruction | nodes.Label
    bound: Bound | None
    block: tuple[int, ...]
    line: int


@frozen(eq=False)
class Frame:
    """A call being followed: the suffix of its labels, its return point, and its parameters."""

    function: int
    suffix: str = ""
    end: str = END
    parameters: Mapping[int, str] = attrs.field(factory=dict)
    """The registers that carry parameters, by the `id` of their symbols."""
    callers: tuple[int, ...] = ()


class Kernel:
    """A kernel, the memory that its threads use, and the code that each of them executes."""

    def __init__(
        self,
        module: nodes.Module,
        name: str | None,
        running: tuple[ThreadIndex, ...],
        numbers: dict[str, int],
        operations_of: Callable[[Kernel, ThreadIndex, Statement, Frame], Iterator[Operation]],
    ) -> None:
        self.operations_of = operations_of
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

    def _statements(self, at: int) -> Iterator[Statement]:
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
                    yield Statement(node, found if isinstance(found, Bound) else None, path, line)
                elif isinstance(node, nodes.Label):
                    yield Statement(node, None, path, self.index.span((*path, i)).line)
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
                (*self.code(thread_index, Frame(self.at)), Label(END)),
                cluster=thread_index.cta // self.clusters,
            )
            for thread_index in self.running
        )
        return Program(threads, tuple(self.variables.values()), self.function.name, awaits_all=False), self.first_keys

    def code(self, thread_index: ThreadIndex, frame: Frame) -> Iterator[Operation]:
        """The code that a thread executes in a function, with calls inlined."""
        for number, one in enumerate(self._statements(frame.function)):
            if isinstance(one.node, nodes.Label):
                yield Label(self.label(one.node.name.text, one.block, frame), one.line)
                continue
            guard = one.node.guard
            if one.bound is None:
                raise CannotFollow(f"`{one.node.opcode.text}` is not an instruction that is known", one.line)
            operations = list(self.operations_of(self, thread_index, one, frame))
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

    def label(self, name: str, block: tuple[int, ...], frame: Frame) -> str:
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

    def called(self, name: str, frame: Frame, line: int) -> Frame:
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
        return Frame(found[0], suffix, END + suffix, {}, callers)

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
