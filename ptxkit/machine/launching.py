"""A launch: its shape and arguments, its resident CTAs, and its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.frozen import frozen
from ptxkit.machine.fault import Fault
from ptxkit.machine.groups import Lanes
from ptxkit.machine.memory.heap import keep_freed_memory
from ptxkit.machine.monitoring import Monitor, WatchedLanes, overrides
from ptxkit.machine.residents import Residents
from ptxkit.machine.scheduling import Scheduler
from ptxkit.machine.types import dtype_of
from ptxkit.syntax import constant_value

if TYPE_CHECKING:
    from ptxkit.machine.code import Site
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.interfaces import Machine
    from ptxkit.machine.loading import Code, Program

Size = int | Sequence[int]
Dimensions = tuple[int, int, int]

CHUNK = 1 << 16
"""Number of threads that are resident at a time, unless they wait for others."""

LOCAL_BYTES = 1 << 28
"""Maximum local memory of all resident threads together, in bytes."""

WORKSPACE = 256
"""Size in bytes of the memory through which CTAs of a cooperative launch synchronize; initially zero."""

MOST_THREADS = 1024
"""Maximum number of threads in a CTA."""

SHARED_LIMIT = 227 << 10
"""Maximum shared memory of a CTA in bytes (sm_90; earlier targets have less)."""

_SHARED_LIMITS = {
    70: 96,
    72: 96,
    75: 64,
    80: 163,
    86: 99,
    87: 163,
    89: 99,
    90: 227,
    100: 227,
    101: 227,
    103: 227,
    110: 227,
    120: 99,
    121: 99,
}


@frozen
class Budget:
    """Limits of a launch: instructions counted for each thread, and seconds of processor time; None means no limit.

    Processor time is that of the thread that launches, so that a launch ends at about the same point however busy the computer is.
    `operations` counts an instruction once for all threads that execute it together, and more if it starts an asynchronous operation or if
    monitors track it. It measures the cost of a launch independently of the computer.
    """

    instructions: int | None = None
    seconds: float | None = 600.0
    operations: int | None = None


@frozen
class Run:
    """Result of a launch. `output` is what the kernel printed, `findings` are those of the monitors."""

    instructions: int
    seconds: float
    output: str = ""
    findings: tuple[Finding, ...] = ()


class Launch:
    """State that all threads of a launch share."""

    lanes_type: type[Lanes] = Lanes

    def __init__(
        self,
        machine: Machine,
        program: Program,
        grid: Dimensions,
        block: Dimensions,
        cluster: Dimensions | None,
        dynamic_shared: int,
        schedule: str | int,
        budget: Budget,
        monitors: tuple[Any, ...],
        progress: Callable[[Any], None] | None,
    ) -> None:
        self.machine = machine
        self.program = program
        self.grid, self.block = grid, block
        self.is_cluster = cluster is not None
        self.cluster = cluster or (1, 1, 1)
        self.cluster_size = self.cluster[0] * self.cluster[1] * self.cluster[2]
        self.clusters = tuple([g // c for g, c in zip(grid, self.cluster, strict=True)])
        self.threads = block[0] * block[1] * block[2]
        self.ctas = grid[0] * grid[1] * grid[2]
        self.dynamic_shared = dynamic_shared
        self.schedule = schedule
        self.budget = budget
        self.monitors = monitors
        self.progress = progress
        self.number = machine.next_launch()
        self.multiprocessors = 132
        self.output: list[str] = []
        self.turns = 0
        self.executed = 0
        self.operations = 0
        """Cost so far, in the operations of a budget."""
        self.started = time.thread_time()
        self.parameters = b""
        self.workspace = 0
        """Address of the memory through which CTAs of a cooperative launch synchronize; 0 if it is none."""
        self.next_cta = 0
        self.scheduler: Scheduler | None = None
        self.reads = 0
        self.stopped: int | None = None
        """The value of the clock while it is stopped, otherwise None."""
        self.ahead = 0
        """Cycles that have been skipped."""
        self.accessing: tuple[Any, ...] = ()
        """The monitors that receive memory accesses."""
        self.of_shared: Callable[[Any], Any] | None = None
        """Filters shared memory accesses for monitors: returns the access, a part of it, or None. A monitor may set it in `begin`."""
        self.stand_in: Callable[[str, Any, Any, list[Any], list[int]], list[Any] | None] | None = None
        """Synthesizes the results of undefined functions. It receives the name, the call, the lanes, all 8-byte words passed, and the sizes
        of the results, and returns an array of bytes for each result, one row for each lane; None if the results are unknown. Set in
        `begin`."""
        self.first_lines = False
        """Whether only the first rows of each matrix in a descriptor are read, and the others are zero. Set in `begin`."""
        self.started_ctas = self.ctas
        """How many CTAs are started: the first ones of the grid. A monitor may set fewer in `begin`."""
        if program.shared_dynamic > program.shared_static or dynamic_shared:
            self.shared_bytes = program.shared_dynamic + dynamic_shared
        else:
            self.shared_bytes = program.shared_static
        if monitors:
            self.lanes_type = WatchedLanes

    # --- what special registers read

    def clock(self) -> int:
        self.reads += 1
        return self._time() if self.stopped is None else self.stopped

    def _time(self) -> int:
        steps = self.scheduler.steps if self.scheduler is not None else 0
        return steps * 32 + self.reads * 4 + self.ahead

    def stop_clock(self) -> None:
        """Stops the clock."""
        self.stopped = self._time()

    def start_clock(self) -> None:
        """Restarts the clock."""
        self.stopped = None

    def leap(self, cycles: int) -> None:
        """Advances the stopped clock by some cycles."""
        assert self.stopped is not None
        self.ahead += cycles
        self.stopped += cycles

    def nanoseconds(self) -> int:
        return 1_700_000_000_000_000_000 + self.clock() * 1000

    def places(self, number: Any) -> tuple[Any, Any, Any]:
        """For CTAs by their number in the launch (CTAs of a cluster are consecutive): index in the grid, index of the cluster, index in
        the cluster."""
        inner, outer = number % self.cluster_size, number // self.cluster_size
        cx, cy, _ = self.cluster
        gx, gy, _ = self.clusters
        inside = (inner % cx, inner // cx % cy, inner // (cx * cy))
        cluster = (outer % gx, outer // gx % gy, outer // (gx * gy))
        return tuple([c * n + i for c, n, i in zip(cluster, self.cluster, inside, strict=True)]), cluster, inside

    # --- residents

    @property
    def more_ctas(self) -> bool:
        """Whether some CTAs have not started."""
        return self.next_cta < self.started_ctas

    def lay_out(self, memory: Any, ctas: int) -> None:
        memory.begin(
            ctas=ctas,
            threads=self.threads,
            cluster=self.cluster_size,
            shared=self.shared_bytes,
            local=self.program.stack_bytes,
            parameters=self.parameters,
        )

    def chunk(self) -> int:
        """How many CTAs become resident together."""
        lanes = CHUNK
        if self.program.stack_bytes:
            lanes = min(lanes, max(self.threads, LOCAL_BYTES // max(64, self.program.stack_bytes)))
        ctas = max(1, lanes // self.threads)
        if self.shared_bytes:
            ctas = min(ctas, max(1, (LOCAL_BYTES * 2) // max(1024, self.shared_bytes)))
        ctas = max(1, ctas // self.cluster_size) * self.cluster_size
        return min(ctas, self.started_ctas - self.next_cta)

    def admit(self, scheduler: Scheduler) -> None:
        """Makes further CTAs resident, in addition to those that wait, since the wait may depend on them."""
        more = self.chunk()
        lanes = scheduler.residents.grow(more)
        self.next_cta += more
        for monitor in self.monitors:
            monitor.resident(scheduler.residents)
        scheduler.start(lanes)

    def span(self, site: Site) -> Any:
        """The location of an instruction."""
        return self.program.codes[id(site.body)].span(site.path)

    def exited(self, lanes: Lanes) -> None:
        for monitor in self.monitors:
            monitor.exit(lanes)

    def run(self) -> None:
        """Runs all CTAs. Raises `Fault`."""
        memory = self.machine.memory
        residents = Residents(self, memory)
        monitors = self.monitors
        for monitor in monitors:
            monitor.begin(self)
        self.accessing = tuple([monitor for monitor in monitors if overrides(monitor, "access") and not monitor.is_idle])
        if self.accessing:
            memory.watch = self.accessed
        try:
            with np.errstate(all="ignore"):
                while self.more_ctas:
                    self.run_chunk(residents)
        except Fault as fault:
            for monitor in monitors:
                monitor.fault(fault)
            raise
        finally:
            memory.watch = None
            for monitor in monitors:
                monitor.end(self)

    def run_chunk(self, residents: Residents) -> None:
        """Runs the next chunk of CTAs, and those that become resident in the meantime."""
        count = self.chunk()
        first = self.next_cta
        self.next_cta += count
        residents.begin(first, count)
        residents.agents = self.machine.agents(self.schedule)
        residents.agents.monitors = self.monitors
        for monitor in self.monitors:
            monitor.resident(residents)
        scheduler = self.scheduler = Scheduler(self.program, self, residents)
        try:
            scheduler.start(residents.all)
            scheduler.run()
            scheduler.finish_agents()
        finally:
            self.executed += scheduler.executed
            scheduler.executed = 0
            self.operations += scheduler.operations
        for monitor in self.monitors:
            monitor.vacant(residents)

    def forget(self) -> None:
        """Drops references to monitors. These refer to the launch, so that otherwise their memory would only be freed by the garbage
        collector."""
        self.monitors = self.accessing = ()
        if self.scheduler is not None and self.scheduler.residents.agents is not None:
            self.scheduler.residents.agents.monitors = ()
        self.scheduler = None

    def accessed(self, access: Any) -> None:
        seen = self.of_shared(access) if self.of_shared is not None and access.space.startswith(".shared") else access
        for monitor in self.accessing:
            # CTAs with the same accesses may still access different values
            one = access if monitor.follows_undefined else seen
            if one is not None:
                monitor.access(one)

    def found(self) -> None:
        """Called when a monitor has a new finding."""
        for monitor in self.monitors:
            monitor.found()


def three(given: Size, what: str) -> Dimensions:
    """Extends one to three numbers to three. Raises `Fault`."""
    numbers = (given,) if isinstance(given, int | np.integer) else tuple(given)
    if not 1 <= len(numbers) <= 3 or any(int(number) != number or number < 1 for number in numbers):
        raise Fault("launch", f"{what} must be one to three positive integers, not {given!r}")
    x, y, z = (*[int(number) for number in numbers], 1, 1)[:3]
    return x, y, z


def launch(
    machine: Machine,
    code: Code,
    kernel: str,
    arguments: Sequence[Any],
    grid: Size,
    block: Size,
    cluster: Size | None,
    shared: int,
    schedule: str | int | None,
    budget: Budget | float | None,
    monitors: Sequence[Any],
    progress: Callable[[Any], None] | None,
    cooperative: bool = False,
) -> Run:
    """Runs a kernel to completion. See `Machine.launch`."""
    watched = bool(monitors)
    if watched:
        keep_freed_memory()
    shape = three(grid, "grid"), three(block, "block")
    if schedule is None:
        schedule = "lockstep"
    if not isinstance(schedule, int) and schedule not in ("lockstep", "late", "early"):
        raise ValueError(f"a schedule must be lockstep, late, early or a number, not {schedule!r}")
    said = declared(code, kernel)
    asked = cluster if cluster is not None else said.get(".reqnctapercluster") or None
    group = three(asked, "cluster") if asked is not None else None
    _check_directives(code, kernel, said, shape[1], group)
    _check_shape(shape[0], shape[1], group)
    followed = any(monitor.follows_undefined for monitor in monitors if isinstance(monitor, Monitor))
    stepped = any(monitor.steps for monitor in monitors if isinstance(monitor, Monitor))
    program = code.program(kernel, group is not None and group != (1, 1, 1), watched, followed, stepped)
    if not isinstance(budget, Budget):
        budget = Budget(seconds=float(budget)) if budget is not None else Budget()
    one = Launch(machine, program, *shape, group, shared, schedule, budget, tuple(monitors), progress)
    limit = shared_limit(machine.target)
    if one.shared_bytes > limit:
        raise Fault(
            "shared", f"`{kernel}` takes {one.shared_bytes} bytes of shared memory, a CTA of {machine.target} has {limit}", path=code.path
        )
    passed = Passed(machine, copies=watched or not machine.memory.host)
    try:
        one.parameters = passed.parameters(program, arguments)
        if cooperative:
            one.workspace = passed.array(memoryview(bytearray(WORKSPACE)), "the workspace of the grid")
        started = time.perf_counter()
        one.run()
        seconds = time.perf_counter() - started
        passed.copy_back()
        findings = _findings(one)
    except Fault as fault:
        fault.findings = _findings(one)
        raise
    except MemoryError:
        raise Fault("memory", "there is not enough memory on this computer for the launch", path=code.path) from None
    finally:
        passed.free()
        one.forget()
    return Run(one.executed, seconds, "".join(one.output), findings)


def _findings(one: Launch) -> tuple[Finding, ...]:
    """The findings of all monitors, collected while arrays are still registered by name."""
    return tuple([finding for monitor in one.monitors for finding in getattr(monitor, "findings", ())])


def _check_shape(grid: Dimensions, block: Dimensions, cluster: Dimensions | None) -> None:
    threads = block[0] * block[1] * block[2]
    if threads > MOST_THREADS or block[2] > 64:
        raise Fault("launch", f"a block of {'x'.join(map(str, block))} threads: at most {MOST_THREADS} are possible, and 64 in z")
    if grid[0] > 2**31 - 1 or grid[1] > 65535 or grid[2] > 65535:
        raise Fault("launch", f"a grid of {'x'.join(map(str, grid))} CTAs: at most 2147483647 x 65535 x 65535 are possible")
    if cluster is None:
        return
    if cluster[0] * cluster[1] * cluster[2] > 16:
        raise Fault("launch", f"a cluster of {'x'.join(map(str, cluster))} CTAs: at most 16 are possible")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise Fault("launch", f"a grid of {'x'.join(map(str, grid))} CTAs is not a multiple of the cluster, {'x'.join(map(str, cluster))}")


def shared_limit(target: str) -> int:
    """The maximum shared memory of a CTA in bytes."""
    digits = "".join([letter for letter in target if letter.isdigit()])
    return _SHARED_LIMITS.get(int(digits or 90), SHARED_LIMIT >> 10) << 10


def declared(code: Code, kernel: str) -> dict[str, list[int]]:
    """The numbers in a kernel's performance directives, by name (11.4)."""
    found = code.defined.get(kernel)
    if found is None:
        return {}
    directives = {}
    for directive in found[1].header.directives:
        numbers = [constant_value(argument) for argument in directive.arguments]
        directives[directive.name] = [int(number) for number in numbers if number is not None]
    return directives


def _check_directives(code: Code, kernel: str, said: dict[str, list[int]], block: Dimensions, cluster: Dimensions | None) -> None:
    """Checks whether the kernel's directives allow a shape (11.4). Raises `Fault`."""
    required = said.get(".reqntid")
    if required and _three(required) != block:
        raise Fault("launch", f"`{kernel}` requires blocks of {_by(_three(required))} (.reqntid), not {_by(block)}", path=code.path)
    most = said.get(".maxntid")
    if most and int(np.prod(most)) < block[0] * block[1] * block[2]:
        allowed = f"at most {int(np.prod(most))} threads a block (.maxntid)"
        raise Fault("launch", f"`{kernel}` allows {allowed}: a block of {_by(block)} is too large", path=code.path)
    asked = said.get(".reqnctapercluster")
    if asked and cluster is not None and _three(asked) != cluster:
        raise Fault(
            "launch", f"`{kernel}` requires clusters of {_by(_three(asked))} (.reqnctapercluster), not {_by(cluster)}", path=code.path
        )


def _three(numbers: list[int]) -> Dimensions:
    """A shape of which a directive names the first dimensions only."""
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _by(numbers: Dimensions) -> str:
    return "x".join(map(str, numbers))


class Passed:
    """The arguments of one launch: parameter bytes, and arrays that are copied in and back."""

    def __init__(self, machine: Machine, copies: bool) -> None:
        """With `copies`, arrays are copied to machine memory; otherwise they are accessed in host memory."""
        self.machine = machine
        self.is_copied = copies
        self.copies: list[tuple[int, memoryview]] = []
        self.addresses: dict[tuple[int, int], int] = {}
        self.end = machine.memory.end

    def parameters(self, program: Program, arguments: Sequence[Any]) -> bytes:
        """The parameters of a kernel, laid out. Raises TypeError or ValueError if the arguments do not fit."""
        layout = program.layout()
        if len(layout) != len(arguments):
            raise TypeError(f"{program.kernel} has {len(layout)} parameters, {len(arguments)} arguments are given")
        size = max([at + size for _, at, size, _ in layout], default=0)
        data = bytearray(size)
        for (name, at, length, symbol), given in zip(layout, arguments, strict=True):
            raw = self._bytes(name, symbol, length, given)
            if len(raw) != length:
                raise TypeError(f"the parameter {name} has {length} bytes, the argument {len(raw)}")
            data[at : at + length] = raw
        return bytes(data)

    def _bytes(self, name: str, symbol: Any, length: int, given: Any) -> bytes:
        if isinstance(given, bytes | bytearray):
            return bytes(given)
        raw = getattr(given, "data", None)
        if isinstance(raw, bytes):
            return raw
        encode = getattr(given, "encode", None)
        if encode is not None and not isinstance(given, str):
            return bytes(encode(self))
        if isinstance(given, int | float | np.number | np.bool_):
            return _number(name, symbol, length, given)
        try:
            view = memoryview(given)
        except (TypeError, ValueError):
            view = _as_bytes(given)  # type: ignore[assignment]
            if view is None:
                raise TypeError(f"the parameter {name} cannot be given a {type(given).__name__}") from None
        if view.ndim == 0:
            return view.tobytes()
        if not view.c_contiguous:
            raise TypeError(f"the array for the parameter {name} is not contiguous")
        return self.array(view, name).to_bytes(8, "little")

    def array(self, view: memoryview, name: str = "") -> int:
        """The address of a copy of an array, which is copied back at the end if it is writable. An array that is passed twice is copied
        once."""
        own = np.frombuffer(view, np.uint8).ctypes.data if view.nbytes else 4096
        key = (own, view.nbytes)
        known = self.addresses.get(key)
        if known is not None and view.nbytes:
            return known
        if not self.is_copied:
            self.addresses[key] = own
            if not self.machine.memory.allocations.hold(own, own + view.nbytes):
                self.machine.memory.register(own, view.nbytes, name)
                self.copies.append((own, view))
            return own
        address = self.addresses[key] = int(self.machine.new_global(view.nbytes, name, 256))
        self.copies.append((address, view))
        if view.nbytes:
            self.machine.memory.view(address, view.nbytes)[:] = np.frombuffer(view, np.uint8)
        return address

    def copy_back(self) -> None:
        """Copies arrays that the kernel may have changed back to the host."""
        if not self.is_copied:
            return
        for address, view in self.copies:
            if not view.readonly and view.nbytes:
                np.frombuffer(view, np.uint8)[:] = self.machine.memory.view(address, view.nbytes)

    def free(self) -> None:
        give_back = self.machine.free_global if self.is_copied else self.machine.memory.free
        for address, _ in self.copies:
            give_back(address)
        self.copies.clear()
        # otherwise memory would grow with each launch
        self.machine.memory.trim(self.end)


def _as_bytes(given: Any) -> memoryview | None:
    """The bytes of an array whose dtype Python's buffer protocol does not support (bfloat16)."""
    if isinstance(given, np.ndarray) and given.flags.c_contiguous:
        return memoryview(given.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    return None


def _number(name: str, symbol: Any, length: int, given: Any) -> bytes:
    kind = symbol.type or ".b64"
    if kind == ".bf16":
        return (np.float32(given).view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes()
    dtype = dtype_of(kind) if not symbol.dimensions else np.dtype(np.uint64)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return dtype.type(given).tobytes()
    if isinstance(given, float | np.floating):
        if kind.startswith(".b") and length in (4, 8):
            return np.dtype(f"f{length}").type(given).tobytes()  # type: ignore[no-any-return]
        raise TypeError(f"the parameter {name} is of {kind}, {given} is not a whole number")
    value = int(given)
    if not -(1 << length * 8 - 1) <= value < 1 << length * 8:
        raise ValueError(f"{value} does not fit the parameter {name}, which is of {kind}")
    return (value % (1 << length * 8)).to_bytes(length, "little")
