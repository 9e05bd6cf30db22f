"""Converts a program to a PTX kernel, for a GPU or the machine.

Thread t of a CTA of the program is lane 0 of warp t, so that barriers count whole warps. The other lanes exit, or, with `lanes` 32, run
the program again on separate memory. Each CTA of the program is one of the grid; the grid consists of `instances / lanes` copies.

    .visible .entry litmus(.param .u64 memory, .param .u64 results)

`memory` holds the global variables of each instance, `results` one 64-bit integer for each register of `registers(program)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ptxkit.analyses.memory_model.enumerator import registers
from ptxkit.analyses.memory_model.expressions import Function
from ptxkit.analyses.memory_model.program import (
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
from ptxkit.frozen import frozen

WARP = 32


class CannotWrite(Exception):
    """A program that no kernel can express; the message says why."""


@frozen
class Kernel:
    """A kernel that runs a program: its text and launch configuration."""

    text: str
    grid: int
    block: int
    instances: int
    registers: tuple[str, ...]
    """The names of the results, in order: `P0:r1`."""
    stride: int
    """Bytes of `memory` for each instance."""
    initial: bytes
    """Their initial contents."""
    offsets: Mapping[str, int]
    """The offset in them of each variable in global memory."""

    def memory(self) -> bytes:
        """The initial contents of `memory`, for all instances."""
        return self.initial * self.instances

    @property
    def result_bytes(self) -> int:
        """The size of `results`."""
        return max(8 * len(self.registers) * self.instances, 8)


def to_ptx(program: Program, *, instances: int = 1, lanes: int = 1, apart: int = 16, gathers: bool = False, stress: int = 0) -> Kernel:
    """The kernel that runs a program.

    `apart`: bytes from one variable to the next. `gathers`: threads of an instance wait for each other at the start, for a limited time,
    with relaxed operations on a counter at the end of its memory. `stress`: number of additional CTAs that access other memory, a third
    parameter `.param .u64 scratch` of 1 MiB. Raises CannotWrite for what a kernel on one GPU cannot express: aliases, textures, surfaces.
    """
    return _Writer(program, instances, lanes, apart, gathers, stress).kernel()


class _Writer:
    def __init__(self, program: Program, instances: int, lanes: int, apart: int, gathers: bool, stress: int) -> None:
        if len({one.gpu for one in program.threads}) > 1:
            raise CannotWrite("its threads run on several GPUs")
        if any(one.cluster is not None for one in program.threads):
            raise CannotWrite("it has clusters")
        if any(one.alias_of is not None for one in program.variables):
            raise CannotWrite("it has aliases")
        if lanes > WARP or instances % lanes:
            raise ValueError("lanes are at most 32, and instances a multiple of them")
        self.program = program
        self.instances, self.lanes, self.stress = instances, lanes, stress
        self.gathers = gathers
        self.ctas: dict[int, list[int]] = {}
        for t, thread in enumerate(program.threads):
            self.ctas.setdefault(thread.cta, []).append(t)
        self.variables = {one.name: one for one in program.variables}
        self.offsets: dict[str, int] = {}
        self.shared: dict[str, int] = {}
        end = {"global": 0, "shared": 0}
        for one in program.variables:
            bracketed = self.shared if one.space == "shared" else self.offsets
            space = "shared" if one.space == "shared" else "global"
            bracketed[one.name] = end[space]
            step = apart if space == "global" else 16
            end[space] += -(-one.size // step) * step
        self.shared_size = end["shared"]
        self.counter = -(-end["global"] // 16) * 16
        self.stride = self.counter + (max(apart, 16) if gathers else 0) or 16
        self.results = registers(program)
        self.lines: list[str] = []
        self.temporaries = 0
        self.barriers: dict[object, int] = {}

    def kernel(self) -> Kernel:
        initial = bytearray(self.stride)
        for name, offset in self.offsets.items():
            one = self.variables[name]
            initial[offset : offset + one.size] = one.value.to_bytes(max(one.size, 8), "little")[: one.size]
        body = list(self._body())
        used = "".join(body)
        declarations = [f"  .reg .b64 %rd<{self.temporaries + 24}>;", "  .reg .b32 %r<16>;", "  .reg .pred %p<4>;"]
        for t, thread in enumerate(self.program.threads):
            used_here = [f"%{_name(t, name)}" for name in _register_names(thread)]
            if used_here:
                declarations.append(f"  .reg .b64 {', '.join(used_here)};")
        if self.shared_size:
            declarations.append(f"  .shared .align 16 .b8 variables[{self.shared_size * self.lanes}];")
        if "[completion" in used:
            declarations.append("  .shared .align 8 .b64 completion;")
        parameters = [".param .u64 memory", ".param .u64 results"] + ([".param .u64 scratch"] if self.stress else [])
        block = WARP * max(len(one) for one in self.ctas.values())
        text = "\n".join(
            [
                ".version 8.5",
                ".target sm_90",
                ".address_size 64",
                "",
                f".visible .entry litmus({', '.join(parameters)})",
                f".maxntid {block}, 1, 1",
                "{",
                *declarations,
                *body,
                "}",
                "",
            ]
        )
        names = tuple(f"{self.program.threads[one.thread].name}:{one.name}" for one in self.results)
        grid = len(self.ctas) * (self.instances // self.lanes) + self.stress
        return Kernel(text, grid, block, self.instances, names, self.stride, bytes(initial), dict(self.offsets))

    def _body(self) -> Iterator[str]:
        count = len(self.ctas)
        yield "  ld.param.u64 %rd0, [memory];"
        yield "  cvta.to.global.u64 %rd0, %rd0;"
        yield "  ld.param.u64 %rd1, [results];"
        yield "  cvta.to.global.u64 %rd1, %rd1;"
        yield "  mov.u32 %r0, %tid.x;"
        yield "  mov.u32 %r1, %ctaid.x;"
        yield "  shr.u32 %r2, %r0, 5;"
        yield "  and.b32 %r3, %r0, 31;"
        if self.stress:
            yield from self._stressing()
        yield f"  rem.u32 %r4, %r1, {count};"
        yield f"  div.u32 %r5, %r1, {count};"
        yield f"  mad.lo.u32 %r6, %r5, {self.lanes}, %r3;"
        yield f"  mul.wide.u32 %rd2, %r6, {self.stride};"
        yield "  add.u64 %rd0, %rd0, %rd2;"
        yield f"  mul.wide.u32 %rd2, %r6, {8 * len(self.results)};"
        yield "  add.u64 %rd1, %rd1, %rd2;"
        if self.shared_size:
            yield f"  mul.lo.u32 %r7, %r3, {self.shared_size};"
            yield "  mov.u32 %r8, variables;"
            yield "  add.u32 %r7, %r7, %r8;"
        yield from self._initialized()
        if self.lanes < WARP:
            yield f"  setp.ge.u32 %p0, %r3, {self.lanes};"
            yield "  @%p0 bra END;"
        if self.gathers:
            yield from self._gathering()
        for role, them in enumerate(self.ctas.values()):
            for number, t in enumerate(them):
                yield f"  setp.eq.u32 %p0, %r4, {role};"
                yield f"  setp.eq.and.u32 %p0, %r2, {number}, %p0;"
                yield f"  @%p0 bra THREAD{t};"
        yield "  bra END;"
        for t, thread in enumerate(self.program.threads):
            yield f"THREAD{t}:"
            for name in _register_names(thread):
                yield f"  mov.u64 %{_name(t, name)}, {dict(thread.registers).get(name, 0)};"
            for operation in thread.code:
                yield from self._operation(t, thread, operation)
            for number, one in enumerate(self.results):
                if one.thread == t:
                    yield f"  st.global.u64 [%rd1+{8 * number}], %{_name(t, one.name)};"
            yield from self._wait(thread, AsyncWait())  # no copy outlives its shared memory
            yield "  bra END;"
        yield "END:"
        yield "  ret;"

    def _initialized(self) -> Iterator[str]:
        """Initializes shared memory, which has no initial contents, in the first warp."""
        copies = any(isinstance(op, AsyncCopy) and op.proxy == "async" for thread in self.program.threads for op in thread.code)
        if not self.shared_size and not copies:
            return
        yield "  setp.ne.u32 %p0, %r2, 0;"
        yield f"  setp.ge.or.u32 %p0, %r3, {self.lanes}, %p0;"
        yield "  @%p0 bra INITIALIZED;"
        for name, offset in self.shared.items():
            one = self.variables[name]
            for start in range(0, one.size, 4):
                value = (one.value >> 8 * start) & 0xFFFFFFFF
                width = min(4, one.size - start)
                yield f"  mov.u32 %r9, {value};"
                yield f"  st.shared.u{8 * width} [%r7+{offset + start}], %r9;"
        if copies:
            yield "  fence.proxy.async;"
        yield "INITIALIZED:"
        yield "  bar.sync 0;"

    def _gathering(self) -> Iterator[str]:
        yield f"  red.relaxed.gpu.global.add.u32 [%rd0+{self.counter}], 1;"
        yield "  mov.u32 %r9, 0;"
        yield "GATHER:"
        yield f"  ld.relaxed.gpu.global.u32 %r10, [%rd0+{self.counter}];"
        yield "  add.u32 %r9, %r9, 1;"
        yield f"  setp.lt.u32 %p0, %r10, {len(self.program.threads)};"
        yield "  setp.lt.and.u32 %p0, %r9, 2000, %p0;"
        yield "  @%p0 bra GATHER;"

    def _stressing(self) -> Iterator[str]:
        """The stressing CTAs come first in the grid, so that they run concurrently with the others."""
        yield f"  setp.ge.u32 %p0, %r1, {self.stress};"
        yield "  @%p0 bra RUN;"
        yield "  ld.param.u64 %rd2, [scratch];"
        yield "  cvta.to.global.u64 %rd2, %rd2;"
        yield "  mad.lo.u32 %r9, %r1, 4099, %r0;"
        yield "  mov.u32 %r10, 0;"
        yield "STRESS:"
        yield "  mad.lo.u32 %r9, %r9, 1664525, 1013904223;"
        yield "  shr.u32 %r11, %r9, 8;"
        yield "  and.b32 %r11, %r11, 1048572;"
        yield "  cvt.u64.u32 %rd3, %r11;"
        yield "  add.u64 %rd3, %rd2, %rd3;"
        yield "  st.global.u32 [%rd3], %r9;"
        yield "  ld.volatile.global.u32 %r12, [%rd3];"
        yield "  add.u32 %r10, %r10, 1;"
        yield "  setp.lt.u32 %p0, %r10, 512;"
        yield "  @%p0 bra STRESS;"
        yield "  bra END;"
        yield "RUN:"
        yield f"  sub.u32 %r1, %r1, {self.stress};"

    def _operation(self, t: int, thread: Thread, operation: Operation) -> Iterator[str]:
        if isinstance(operation, Load):
            yield from self._load(t, operation)
        elif isinstance(operation, Store):
            yield from self._store(t, operation)
        elif isinstance(operation, Atomic):
            yield from self._atomic(t, operation)
        elif isinstance(operation, Fence):
            yield f"  fence.{operation.sem}.{operation.scope};"
        elif isinstance(operation, ProxyFence):
            if operation.kind not in ("async", "alias"):
                raise CannotWrite(f"it has a fence for the {operation.kind} proxy")
            space = {"global": ".global", "shared": ".shared::cta"}[operation.spaces[0]] if operation.spaces else ""
            yield f"  fence.proxy.{operation.kind}{space};"
        elif isinstance(operation, Barrier):
            yield from self._barrier(thread, operation)
        elif isinstance(operation, AsyncCopy):
            yield from self._copy(operation)
        elif isinstance(operation, AsyncWait):
            yield from self._wait(thread, operation)
        elif isinstance(operation, Compute):
            yield from self._compute(t, operation)
        elif isinstance(operation, Branch):
            yield from self._branch(t, operation)
        elif isinstance(operation, Label):
            yield f"{operation.name}_{t}:"

    def _temporary(self) -> str:
        self.temporaries += 1
        return f"%rd{self.temporaries + 3}"

    def _value(self, t: int, operand: Operand) -> Iterator[str]:
        """Lines that put an operand into a 64-bit register; the last one is its name."""
        if isinstance(operand, str):
            yield f"%{_name(t, operand)}"
            return
        name = self._temporary()
        value = operand & ((1 << 64) - 1)
        yield f"  mov.u64 {name}, {value - (1 << 64) if value >> 63 else value};"
        yield name

    def _bracketed(self, address: Address) -> tuple[str, str]:
        if address.index is not None:
            raise CannotWrite("it has an address that depends on a register")
        if address.variable in self.shared:
            return "shared", f"[%r7+{self.shared[address.variable] + address.offset}]"
        return "global", f"[%rd0+{self.offsets[address.variable] + address.offset}]"

    def _load(self, t: int, operation: Load) -> Iterator[str]:
        if operation.proxy != "generic":
            raise CannotWrite(f"it reads by the {operation.proxy} proxy")
        space, bracketed = self._bracketed(operation.address)
        names = operation.register if isinstance(operation.register, tuple) else (operation.register,)
        listed = ", ".join(f"%{_name(t, name)}" for name in names)
        vector = f".v{len(names)}" if len(names) > 1 else ""
        listed = f"{{{listed}}}" if vector else listed
        yield f"  ld{_sem(operation.sem, operation.scope)}.{space}{vector}.u{8 * operation.size} {listed}, {bracketed};"

    def _store(self, t: int, operation: Store) -> Iterator[str]:
        if operation.proxy != "generic":
            raise CannotWrite(f"it writes by the {operation.proxy} proxy")
        space, bracketed = self._bracketed(operation.address)
        values = operation.value if isinstance(operation.value, tuple) else (operation.value,)
        names = []
        for one in values:
            *lines, name = self._value(t, one)
            yield from lines
            names.append(name)
        vector = f".v{len(names)}" if len(names) > 1 else ""
        listed = "{" + ", ".join(names) + "}" if vector else names[0]
        yield f"  st{_sem(operation.sem, operation.scope)}.{space}{vector}.u{8 * operation.size} {bracketed}, {listed};"

    def _atomic(self, t: int, operation: Atomic) -> Iterator[str]:
        if operation.proxy != "generic":
            raise CannotWrite(f"it updates by the {operation.proxy} proxy")
        if operation.size not in (4, 8):
            raise CannotWrite(f"it updates {operation.size} bytes")
        if operation.register is None and operation.sem not in ("relaxed", "release"):
            raise CannotWrite(f"there is no red.{operation.sem}")
        bits = 8 * operation.size
        operator, _, sign = operation.operator.partition(".")
        kind = {"exch": "b", "cas": "b", "and": "b", "or": "b", "xor": "b"}.get(operator, sign or "u")
        if operator in ("sub", "mul", "div") or (operator in ("inc", "dec") and bits != 32):
            raise CannotWrite(f"there is no atom.{operator}.{kind}{bits}")
        space, bracketed = self._bracketed(operation.address)
        names = []
        for one in operation.values:
            *lines, name = self._value(t, one)
            yield from lines
            names.append(name)
        if bits == 32:
            for i, name in enumerate(names):
                yield f"  cvt.u32.u64 %r{11 + i}, {name};"
                names[i] = f"%r{11 + i}"
        operands = ", ".join([bracketed, *names])
        name = f"{_sem(operation.sem, operation.scope)}.{space}.{operator}.{kind}{bits}"
        if operation.register is None:
            yield f"  red{name} {operands};"
        elif bits == 32:
            yield f"  atom{name} %r13, {operands};"
            yield f"  cvt.u64.u32 %{_name(t, operation.register)}, %r13;"
        else:
            yield f"  atom{name} %{_name(t, operation.register)}, {operands};"

    def _barrier(self, thread: Thread, operation: Barrier) -> Iterator[str]:
        if operation.cluster or operation.action == "red":
            raise CannotWrite(f"it has a barrier.{'cluster' if operation.cluster else 'cta.red'}")
        number = self._barrier_number(operation)
        count = operation.threads
        if not isinstance(count, int | None):
            raise CannotWrite("the number of threads of a barrier is in a register")
        if count is None and (operation.action == "arrive" or not self.program.awaits_all):
            count = sum(
                any(isinstance(one, Barrier) and one.barrier == operation.barrier for one in self.program.threads[t].code)
                if not self.program.awaits_all
                else 1
                for t in self.ctas[thread.cta]
            )
        suffix = "" if count is None else f", {WARP * count}"
        yield f"  barrier.cta.{operation.action} {number}{suffix};"

    def _barrier_number(self, operation: Barrier) -> int:
        name = operation.barrier
        if isinstance(name, int):
            return name
        if isinstance(name, str) or isinstance(name[1], str):
            raise CannotWrite("the name of a barrier is in a register")
        number = self.barriers.setdefault(name, len(self.barriers) + 1)
        if number > 15:
            raise CannotWrite("it has more than 15 barriers")
        return number

    def _copy(self, operation: AsyncCopy) -> Iterator[str]:
        (target, to), (source, from_) = self._bracketed(operation.target), self._bracketed(operation.source)
        if operation.proxy != "async":
            if (target, source) != ("shared", "global") or operation.size not in (4, 8, 16):
                raise CannotWrite("cp.async copies 4, 8 or 16 bytes from global to shared memory")
            yield f"  cp.async.ca.shared.global {to}, {from_}, {operation.size};"
            yield "  cp.async.commit_group;"
            return
        if (target, source) != ("global", "shared") or operation.size % 16:
            raise CannotWrite("a bulk copy is written from shared to global memory, 16 bytes at a time")
        yield f"  cp.async.bulk.global.shared::cta.bulk_group {to}, {from_}, {operation.size};"
        yield "  cp.async.bulk.commit_group;"

    def _wait(self, thread: Thread, operation: AsyncWait) -> Iterator[str]:
        kinds = {one.proxy for one in thread.code if isinstance(one, AsyncCopy)}
        if "async" in kinds:
            yield f"  cp.async.bulk.wait_group {operation.pending};"
        if "generic" in kinds:
            yield f"  cp.async.wait_group {operation.pending};"

    def _compute(self, t: int, operation: Compute) -> Iterator[str]:
        if not isinstance(operation.function, Function):
            raise CannotWrite(f"it has `{operation.text}`")
        names = []
        for one in operation.operands:
            *lines, name = self._value(t, one)
            yield from lines
            names.append(name)
        name = operation.function.name
        target = f"%{_name(t, operation.register)}"
        if name.startswith("setp."):
            yield f"  {name}.s64 %p1, {', '.join(names)};"
            yield f"  selp.u64 {target}, 1, 0, %p1;"
            return
        kind = {"mov": "u64", "add": "u64", "sub": "u64", "mul": "lo.u64", "div": "s64", "min": "u64", "max": "u64"}.get(name, "b64")
        yield f"  {name}.{kind} {', '.join([target, *names])};"

    def _branch(self, t: int, operation: Branch) -> Iterator[str]:
        if operation.function is None:
            yield f"  bra {operation.label}_{t};"
            return
        if not isinstance(operation.function, Function):
            raise CannotWrite(f"it has `{operation.text}`")
        names = []
        for one in operation.operands:
            *lines, name = self._value(t, one)
            yield from lines
            names.append(name)
        yield f"  {operation.function.name}.s64 %p1, {', '.join(names)};"
        yield f"  @%p1 bra {operation.label}_{t};"


def _sem(sem: str, scope: str | None) -> str:
    return ".weak" if sem == "weak" else f".{sem}.{scope}"


def _name(thread: int, register: str) -> str:
    return f"{register.lstrip('%')}_{thread}"


def _register_names(thread: Thread) -> tuple[str, ...]:
    """The registers that a thread uses."""
    found = dict.fromkeys(name for name, _ in thread.registers)
    for one in thread.code:
        written = getattr(one, "register", None)
        for name in written if isinstance(written, tuple) else (written,):
            if name is not None:
                found[name] = None
        read: tuple[object, ...] = (*getattr(one, "operands", ()), *getattr(one, "values", ()))
        value = getattr(one, "value", ())
        read += value if isinstance(value, tuple) else (value,)
        found.update((name, None) for name in read if isinstance(name, str))
    return tuple(found)


__all__ = ["CannotWrite", "Kernel", "Variable", "to_ptx"]
