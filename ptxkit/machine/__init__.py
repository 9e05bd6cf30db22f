"""The machine: executes PTX on the CPU. The README beside this file explains it.

    machine = Machine(target="sm_90a")
    code = machine.load(text)
    run = machine.launch(code, "saxpy", x, y, 2.0, len(x), grid=64, block=256)

NumPy is imported when this package is, so import it where something is to be executed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.machine.fault import Fault
from ptxkit.machine.launching import Budget, Run, Size, launch
from ptxkit.machine.loading import FUNCTIONS, Code
from ptxkit.machine.memory import CONST, Memory
from ptxkit.machine.memory.arena import Arena
from ptxkit.machine.textures import Sampler, Surface, Texture
from ptxkit.machine.textures.objects import handle_of
from ptxkit.names import Symbol, resolve
from ptxkit.syntax import Module, index_of

MEMORY_LIMIT = 32 << 30
"""Global memory of a machine in bytes."""


class Machine:
    """A GPU of some target, with its memory and its loaded modules.

    With `host_memory`, global addresses are addresses of this process. Machines share nothing.
    """

    def __init__(self, target: str = "sm_90a", host_memory: bool = False) -> None:
        self.target = target
        self.memory = Memory(host=host_memory)
        self.codes: list[Code] = []
        self._functions: dict[tuple[int, str], int] = {}
        self._by_address: dict[int, tuple[Code, str]] = {}
        self._constants = bytearray()
        self._heap: set[int] = set()
        self._used = 0
        self._sizes: dict[int, int] = {}
        self._arena = Arena() if host_memory else None
        self._changing = threading.RLock()
        """Lock for allocations."""
        self.running = threading.RLock()
        """Held while a kernel is laid out, compiled and run: host threads launch one after another."""
        self._launches = 0
        self.conditions: dict[int, int] = {}
        """Values that kernels set with `cudaGraphSetConditional`, by handle."""

    def load(self, source: str | Module) -> Code:
        """Loads a module from text or tree. `.extern` symbols refer to modules that were loaded before.

        Raises ValueError if the module has errors; the exception has them in `diagnostics`.
        """
        from ptxkit.syntax import parse

        module = parse(source) if isinstance(source, str) else source
        errors = _errors(module)
        if errors:
            first = errors[0]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            problem = ValueError(f"line {first.span.line}: {first.message}{more}")
            problem.diagnostics = tuple(errors)  # type: ignore[attr-defined]
            raise problem
        code = Code(self, module)
        self.codes.append(code)
        return code

    def launch(
        self,
        code: Code,
        kernel: str,
        *arguments: Any,
        grid: Size,
        block: Size,
        cluster: Size | None = None,
        shared: int = 0,
        schedule: str | int | None = None,
        budget: Budget | float | None = None,
        monitors: Sequence[Any] = (),
        checks: str | Sequence[str] = (),
        progress: Callable[[Any], None] | None = None,
        cooperative: bool = False,
    ) -> Run:
        """Runs a kernel to completion.

        An argument is a NumPy array or any object with the buffer protocol (copied in and, if writable, copied back), a number (converted
        to the type of its parameter), `bytes` for a structure, a `Buffer`, an address for a pointer, or a `TensorMap`. `shared` is dynamic
        shared memory in bytes. `schedule` is `lockstep`, `late`, `early`, or an integer seed for a random schedule. `budget` is in seconds,
        or a `Budget`. `monitors` are notified of events (`ptxkit.machine.monitoring`); `checks` names built-in monitors (`races`, or
        `all`), whose findings are in `findings` of the run, or of a `Fault`. With `cooperative`, CTAs can synchronize across the grid
        (`grid_group::sync`); the memory for that is provided.

        Raises `Fault` if the kernel cannot continue, and TypeError or ValueError if the arguments do not fit its parameters.
        """
        if checks:
            from ptxkit.machine.monitors import monitors_of

            monitors = (*monitors, *monitors_of(checks))
        with self.running:
            self.memory.set_constants(bytes(self._constants))
            if "uninitialized" not in checks and "all" not in checks:
                # this launch does not track which bytes it writes
                self.memory.unwritten.clear()
            return launch(self, code, kernel, arguments, grid, block, cluster, shared, schedule, budget, monitors, progress, cooperative)

    def alloc(self, size: int) -> Buffer:
        """Allocates global memory of `size` bytes. It is zero; on a GPU it is undefined, and the check `uninitialized` treats it so.

        Raises `Fault` if there is not enough memory.
        """
        address = self.new_global(size, "", 256)
        if not self.memory.host:
            self.memory.unwritten[address] = np.zeros(size, np.uint8)
        return Buffer(self, address, size)

    def texture(self, array: Any, **properties: Any) -> Texture:
        """Creates a texture object for an array, to be passed to kernels; `handle_of` gives its handle. See `Texture` for the
        properties."""
        made = Texture(array=array, **properties)
        handle_of(self.memory, made)
        return made

    def surface(self, array: Any, **properties: Any) -> Surface:
        """Creates a surface object for an array, which kernels read and write. See `Surface`."""
        made = Surface(array=array, **properties)
        handle_of(self.memory, made)
        return made

    def bind(self, code: Code, name: str, thing: Texture | Sampler | Surface) -> None:
        """Binds an object to a `.texref`, `.samplerref` or `.surfref` variable of a module. Raises KeyError if there is no such
        variable."""
        self.memory.objects[code.address(name)] = thing

    def write(self, address: int, data: Any) -> None:
        """Copies bytes or an array to global memory, or to `.const` at a generic address. Raises ValueError for other addresses."""
        raw = data if isinstance(data, bytes | bytearray) else np.ascontiguousarray(data).tobytes()
        at = self._constant_at(address, len(raw))
        if at is None:
            self.memory.write(address, raw)
        else:
            self._constants[at : at + len(raw)] = raw

    def read(self, address: int, size: int) -> bytes:
        """Returns a copy of global memory, or of `.const` at a generic address. Raises ValueError for other addresses."""
        at = self._constant_at(address, size)
        return self.memory.read(address, size) if at is None else bytes(self._constants[at : at + size])

    def _constant_at(self, address: int, size: int) -> int | None:
        """The offset in `.const` of a generic address; None if it lies elsewhere."""
        at = address - CONST
        if not 0 <= at < 1 << 48:
            return None
        if at + size > len(self._constants):
            raise ValueError(f"{size} bytes at {address:#x} are outside of constant memory")
        return at

    # --- what loading and launching need

    def new_global(self, size: int, name: str, align: int) -> int:
        """Allocates global memory and returns its address. Raises `Fault` if there is not enough."""
        with self._changing:
            if size < 0 or self._used + size > MEMORY_LIMIT:
                what = f"`{name}`" if name else "an allocation"
                raise Fault("memory", f"{what} takes {size} bytes, the machine has {MEMORY_LIMIT - self._used} left")
            try:
                if self._arena is not None:
                    address = self._arena.allocate(size, align)
                    self.memory.register(address, size, name)
                else:
                    address = self.memory.allocate(size, name, align)
            except MemoryError:
                raise Fault("memory", f"there is not enough memory on this computer for {size} bytes") from None
            self._used += size
            self._sizes[address] = size
        return int(address)

    def free_global(self, address: int) -> None:
        with self._changing:
            self.memory.free(address)
            size = self._sizes.pop(address, 0)
            self._used -= size
            if self._arena is not None:
                self._arena.free(address, size)

    def reserve(self, size: int, align: int) -> int:
        """Reserves addresses of this process that no allocation gets and no kernel may access (with `host_memory`). Raises MemoryError."""
        if self._arena is None:
            raise ValueError("addresses are reserved in host memory only")
        with self._changing:
            return self._arena.allocate(size, align, may_be_elsewhere=False)

    def unreserve(self, address: int, size: int) -> None:
        """Releases reserved addresses, without changing what the process itself has mapped there."""
        if self._arena is not None:
            with self._changing:
                self._arena.free(address, size)

    def new_constant(self, size: int, align: int) -> int:
        """Allocates constant memory and returns its address in `.const`."""
        at = -(-len(self._constants) // align) * align
        self._constants += bytes(at + size - len(self._constants))
        return at

    def set_constant(self, at: int, data: bytes) -> None:
        self._constants[at : at + len(data)] = data
        self.memory.set_constants(bytes(self._constants))

    def heap(self, size: int) -> int:
        """The result of `malloc` in a kernel: an address, or 0 if there is not enough memory."""
        try:
            address = self.new_global(size, "malloc", 16)
        except Fault:
            return 0
        self._heap.add(address)
        if not self.memory.host:
            self.memory.unwritten[address] = np.zeros(size, np.uint8)
        return address

    def free_heap(self, address: int) -> bool:
        if address not in self._heap:
            return False
        self._heap.discard(address)
        self.free_global(address)
        return True

    def function_address(self, code: Code, name: str) -> int:
        key = (id(code), name)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = FUNCTIONS + 16 * len(self._functions)
            self._by_address[found] = (code, name)
        return found

    def has_function_at(self, address: int) -> bool:
        return address in self._by_address

    def function_at(self, address: int) -> tuple[Code, str]:
        """The function at an address. Raises `Stop` if there is none."""
        from ptxkit.machine.fault import Stop

        found = self._by_address.get(address)
        if found is None:
            raise Stop("call", f"a call of {address:#x}, where no function is")
        return found

    def exported(self, name: str, code: Code) -> tuple[Code, Symbol] | None:
        """The most recent definition of a name in modules that were loaded before; None if there is none."""
        for other in reversed(self.codes if code.beside is None else code.beside):
            if other is code:
                continue
            symbol = other.names.root.lookup(name)
            if (
                symbol is not None
                and symbol.linkage in (".visible", ".weak", ".common")
                and (symbol.space is not None or getattr(symbol.declares, "body", None) is not None)
            ):
                return other, symbol
        return None

    def agents(self, schedule: str | int) -> Any:
        """A scheduler for the asynchronous operations of a launch."""
        try:
            from ptxkit.machine.asynchronous import Agents
        except ImportError:
            return None
        return Agents(self.memory, "late" if schedule == "lockstep" else schedule)

    def next_launch(self) -> int:
        self._launches += 1
        return self._launches


class Buffer:
    """Global memory of a machine. `address` is an integer, as pointers are."""

    def __init__(self, machine: Machine, address: int, size: int) -> None:
        self._machine = machine
        self.address = address
        self.size = size

    def write(self, array: Any, offset: int = 0) -> None:
        """Copies an array or bytes to the buffer. Raises ValueError if it does not fit."""
        raw = (
            np.frombuffer(array, np.uint8)
            if isinstance(array, bytes | bytearray | memoryview)
            else np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        )
        if offset < 0 or offset + len(raw) > self.size:
            raise ValueError(f"{len(raw)} bytes from {offset} on do not fit {self.size} bytes")
        if len(raw):
            self._machine.memory.view(self.address + offset, len(raw))[:] = raw

    def read(self, dtype: Any = np.uint8, shape: int | tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
        """Returns a copy of the contents, from the start. Raises ValueError if it would exceed the buffer."""
        kind = np.dtype(dtype)
        count = self.size // kind.itemsize if shape is None else int(np.prod(shape))
        if count * kind.itemsize > self.size:
            raise ValueError(f"{count * kind.itemsize} bytes of {self.size}")
        if not count:
            return np.empty(shape if shape is not None else 0, kind)
        found = self._machine.memory.view(self.address, count * kind.itemsize).copy().view(kind)
        return found.reshape(shape) if shape is not None else found  # type: ignore[no-any-return]

    def encode(self, _: Any) -> bytes:
        """The bytes of the argument that a kernel receives: the address."""
        return self.address.to_bytes(8, "little")

    def free(self) -> None:
        """Frees the memory: accesses to it then fault."""
        self._machine.free_global(self.address)


def _errors(module: Module) -> list[Diagnostic]:
    """Syntax errors and undeclared names. Other errors of a module are faults when the instruction is executed."""
    found = [diagnostic for diagnostic in module.diagnostics if diagnostic.severity is Severity.ERROR]
    unresolved = resolve(module).unresolved
    if not unresolved:
        return found
    index = index_of(module)
    for use in unresolved:
        message = f"`{use.name}` is not declared"
        rule = ("E010", "undeclared-register") if use.name.startswith("%") else ("E011", "undeclared-variable")
        found.append(Diagnostic(*rule, Severity.ERROR, message, index.span(use.path), path=module.path))
    return sorted(found, key=lambda diagnostic: diagnostic.span.start)


def __getattr__(name: str) -> Any:
    if name == "TensorMap":
        from ptxkit.machine.asynchronous import TensorMap

        return TensorMap
    raise AttributeError(f"module 'ptxkit.machine' has no attribute {name!r}")


__all__ = ["Budget", "Buffer", "Code", "Fault", "Machine", "Run", "Sampler", "Surface", "TensorMap", "Texture"]
