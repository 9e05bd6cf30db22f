"""The operations of the memory model that a PTX instruction performs in a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from ptxkit.analyses.memory_model.evaluation import Bits, CannotEvaluate, evaluator
from ptxkit.analyses.memory_model.expressions import COPY, Function, signed
from ptxkit.analyses.memory_model.mbarriers import is_over, is_over_by_parity, made, operand, pending_count
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
    ProxyFence,
    Store,
)
from ptxkit.analyses.memory_model.ptx_kernel import END, Frame, Kernel, Statement, ThreadIndex, hash_of
from ptxkit.analyses.memory_model.ptx_operands import Operands
from ptxkit.isa.binding import BoundOperand
from ptxkit.isa.forms import Call, Memory
from ptxkit.isa.types import types
from ptxkit.names import Kind, Symbol
from ptxkit.syntax import constant_value, nodes

MBARRIER = 8
"""Bytes of an mbarrier."""
PROXY_OF = {"cp.async": "generic", "bulk": "async"}
"""The proxy of copies, by kind of group."""


def operations_of(kernel: Kernel, thread_index: ThreadIndex, statement: Statement, frame: Frame) -> Iterator[Operation]:
    """The operations of one instruction in one thread."""
    return _Writer(kernel, thread_index, statement, frame).operations()


class _Writer(Operands):
    """The operations of one instruction in one thread."""

    def operations(self) -> Iterator[Operation]:
        found = list(self._operations())
        yield from self.before
        yield from found

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
