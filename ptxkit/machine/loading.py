"""Prepares a module for launching: symbols and their addresses, initial bytes, and the functions that a kernel may call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ptxkit.checking import Bounds, bounds
from ptxkit.diagnostics import Span
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.machine.code import Body, Site
from ptxkit.machine.compiling import Compiler
from ptxkit.machine.expressions import constant
from ptxkit.machine.fault import Fault, Stop
from ptxkit.machine.following import Undefined
from ptxkit.machine.known import Known, described, is_plain, known
from ptxkit.machine.memory import PARAM_FRAME, windows
from ptxkit.machine.operation import Operation
from ptxkit.machine.plans import call_parts
from ptxkit.machine.types import dtype_of, element_bytes
from ptxkit.memo import collector_paused
from ptxkit.names import Kind, Names, Symbol, resolve
from ptxkit.syntax import (
    Alias,
    Apply,
    Braces,
    Declarator,
    Function,
    Group,
    Index,
    Module,
    Name,
    Node,
    Numbers,
    Path,
    constant_value,
    index_of,
)

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Machine

FUNCTIONS = 0x1000
"""Address of the first function. Functions are 16 apart, below all loadable addresses."""

STACK_BYTES = 64 << 10
"""Local memory of a thread in bytes, if recursion, indirect calls or `alloca` make its need unknown."""

MOST_BYTES = 1 << 38
"""Maximum size of a variable in bytes."""


class Code:
    """A loaded module. `kernels` are the names of its kernels."""

    def __init__(self, machine: Machine, module: Module) -> None:
        self.machine = machine
        self.module = module
        with collector_paused():
            self.names: Names = resolve(module)
        self.bounds: Bounds = bounds(self.names)
        self.kernels = tuple([function.name for function in module.kernels])
        self.beside: list[Code] | None = None
        """The modules in which `.extern` symbols are looked up; None for all that were loaded before."""
        self._addresses: dict[int, int] = {}
        self._variables: list[tuple[Symbol, int]] = []
        """The variables that have been allocated, with their addresses."""
        self._initials: dict[int, bytes] = {}
        """Initial bytes of variables, computed on demand."""
        self._bodies: dict[tuple[str, tuple[bool, ...]], Body] = {}
        self._programs: dict[tuple[str, tuple[bool, ...]], Program] = {}
        self._index: Index | None = None
        self._lines: dict[Path, int] = {}
        self._defined: dict[str, tuple[int, Function]] | None = None
        self._aliases: dict[str, str] = {}

    @property
    def path(self) -> str | None:
        return self.module.path

    @property
    def index(self) -> Index:
        """Lines and columns."""
        if self._index is None:
            with collector_paused():
                self._index = index_of(self.module)
        return self._index

    def span(self, path: Path) -> Span:
        """The location of the node at a path."""
        return self.index.span(path)

    def line(self, path: Path) -> int:
        """The line of the node at a path."""
        found = self._lines.get(path)
        if found is None:
            index = self.index
            found = self._lines[path] = index.line_column(index.offset(path))[0]
        return found

    @property
    def defined(self) -> dict[str, tuple[int, Function]]:
        """The functions with a body, and their positions in the module."""
        found = self._defined
        if found is None:
            found = {}
            for i, child in enumerate(self.module.children):
                if type(child) is Function and child.body is not None:
                    found[child.name] = (i, child)
                elif type(child) is Alias:
                    self._aliases[child.name.text] = child.aliased.text
            # published when it is complete: another host thread may ask meanwhile
            self._defined = found
        return found

    def body(self, name: str, variant: tuple[bool, ...]) -> Body | None:
        """A function of this module with a body, ready to be compiled; None if there is none of that name.

        Each variant of a program has bodies of its own, since these hold compiled code.
        """
        defined = self.defined
        name = self._aliases.get(name, name)
        found = self._bodies.get((name, variant))
        if found is None:
            if name not in defined:
                return None
            index, function = defined[name]
            is_plain = not any(variant[1:])
            made = Body(self.module, self.names, self.bounds, function, index, keeps_dead=variant[-1], is_plain=is_plain)
            found = self._bodies[name, variant] = made
        return found

    def program(self, kernel: str, clustered: bool, watched: bool, followed: bool = False, stepped: bool = False) -> Program:
        """A kernel with all functions that it may call, laid out. Raises `Fault` if there is no such kernel.

        `watched`: compiled with events; `followed`: undefined values are tracked; `stepped`: compiled instruction by instruction.
        """
        variant = (clustered, watched, followed, stepped)
        with self.machine.running:
            found = self._programs.get((kernel, variant))
            if found is None:
                found = self._programs[kernel, variant] = self._laid_out(kernel, variant)
            return found

    def _laid_out(self, kernel: str, variant: tuple[bool, bool, bool, bool]) -> Program:
        if kernel not in self.kernels:
            known = ", ".join(self.kernels) or "none"
            raise Fault("launch", f"no kernel is called `{kernel}`; there are {known}", path=self.path)
        defined = self.defined.get(kernel)
        if defined is not None and not defined[1].header.is_entry:
            raise Fault("launch", f"`{kernel}` is defined twice, the second time as a function", path=self.path)
        try:
            with collector_paused():
                return Program(self, kernel, *variant)
        except Stop as error:
            raise Fault(error.kind, error.reason, path=self.path, function=kernel) from error

    def address(self, name: str) -> int:
        """The address of a `.global` variable or a function, or the generic address of a `.const` variable. Raises KeyError."""
        symbol = self.names.root.lookup(name)
        if symbol is None:
            raise KeyError(name)
        base = windows.CONST if symbol.space == ".const" else 0
        with self.machine.running:
            return base + self.address_of(symbol)

    def address_of(self, symbol: Symbol) -> int:
        """The address of a variable or function of the module. Variables are allocated and initialized on first access."""
        found = self._addresses.get(id(symbol))
        if found is None:
            found = self._addresses[id(symbol)] = self._place(symbol)
            if symbol.kind is Kind.VARIABLE:
                self._variables.append((symbol, found))
        return found

    def placed(self) -> Iterator[tuple[int, int]]:
        """The address ranges (start, end) of allocated `.global` and `.const` variables, as generic addresses."""
        for symbol in self.names.root.symbols.values():
            address = self._addresses.get(id(symbol))
            if address is not None and symbol.kind is Kind.VARIABLE and symbol.space in (".global", ".const"):
                start = address + (windows.CONST if symbol.space == ".const" else 0)
                yield start, start + size_of(symbol)

    def reset(self) -> None:
        """Restores the initial bytes of all allocated `.global` variables."""
        for symbol, address in self._variables:
            if symbol.space == ".global" and symbol.linkage != ".extern":
                self.machine.memory.write(address, self._initial(symbol))

    def _place(self, symbol: Symbol) -> int:
        machine = self.machine
        if symbol.kind is Kind.FUNCTION:
            return int(machine.function_address(self, symbol.name))
        if symbol.linkage == ".extern":
            other = machine.exported(symbol.name, self)
            if other is None:
                raise Fault("extern", f"`{symbol.name}` is `.extern`, and nothing that was loaded before defines it", path=self.path)
            code, theirs = other
            return int(code.address_of(theirs))
        size = size_of(symbol)
        if symbol.space == ".const":
            at = int(machine.new_constant(size, align_of(symbol)))
            self._addresses[id(symbol)] = at
            machine.set_constant(at, self._initial(symbol))
            return at
        at = int(machine.new_global(size, symbol.name, align_of(symbol)))
        self._addresses[id(symbol)] = at
        declarator = declarator_of(self.module, symbol)
        if declarator is not None and declarator.initializer is not None:
            machine.memory.write(at, self._initial(symbol))
        return at

    def _initial(self, symbol: Symbol) -> bytes:
        """The initial bytes of a variable."""
        found = self._initials.get(id(symbol))
        if found is None:
            data = bytearray(size_of(symbol))
            self._initialise(symbol, data)
            found = self._initials[id(symbol)] = bytes(data)
        return found

    def _initialise(self, symbol: Symbol, data: bytearray) -> None:
        declarator = declarator_of(self.module, symbol)
        if declarator is None or declarator.initializer is None or symbol.type not in types():
            return
        dtype = dtype_of(symbol.type)
        sizes = [n or 0 for n in symbol.dimensions[1:]] + ([symbol.vector] if symbol.vector > 1 else [])
        strides = [dtype.itemsize]
        for n in reversed(sizes):
            strides.insert(0, strides[0] * n)
        if not symbol.dimensions and symbol.vector == 1:
            strides = []
        self._fill(declarator.initializer, dtype, strides, data, 0)

    def _fill(self, node: Node, dtype: np.dtype[Any], strides: list[int], data: bytearray, at: int) -> None:
        if isinstance(node, Braces):
            step = strides[0] if strides else dtype.itemsize
            for child in node.children:
                if isinstance(child, Numbers):
                    for element in child.elements:
                        self._element(element, dtype, data, at)
                        at += step
                else:
                    self._fill(child, dtype, strides[1:], data, at)
                    at += step
            return
        self._element(node, dtype, data, at)

    def _element(self, node: Node, dtype: np.dtype[Any], data: bytearray, at: int) -> None:
        value = constant(node, dtype)
        if value is None:
            bits = dtype.itemsize * 8
            value = np.uint64(self._relocated(node) & (1 << bits) - 1).astype(dtype)
        raw = value.tobytes()
        if at + len(raw) <= len(data):
            data[at : at + len(raw)] = raw

    def _relocated(self, node: Node) -> int:
        """The address of `x`, `x + 4`, `generic(x)`, or a byte of it (5.4.4)."""
        if isinstance(node, Name):
            symbol = self.names.root.lookup(node.text)
            return self.address_of(symbol) if symbol is not None else 0
        if isinstance(node, Apply):
            inner = node.children[1]
            inner = inner.children[0] if isinstance(inner, Group) else inner
            if node.children[0].text == "generic":
                named = inner if isinstance(inner, Name) else next(iter(inner.find(Name)))
                symbol = self.names.root.lookup(named.text)
                window = windows.WINDOWS.get(symbol.space or "", 0) if symbol is not None else 0
                return self._relocated(inner) + window
            mask = int(constant_value(node.children[0]) or 0)
            shift = (mask & -mask).bit_length() - 1 if mask else 0
            return (self._relocated(inner) & mask) >> shift
        total, sign = 0, 1
        for child in node.children:
            value = constant_value(child)
            if value is not None:
                total += sign * int(value)
            elif child.text in ("+", "-"):
                sign = 1 if child.text == "+" else -1
            else:
                total += self._relocated(child)
        return total


class Program:
    """A kernel and the functions that it may call: layout of shared and local variables, and compiled code."""

    def __init__(self, code: Code, kernel: str, clustered: bool, watched: bool, followed: bool, stepped: bool) -> None:
        self.code = code
        self.kernel = kernel
        self.clustered = clustered
        self.is_watched = watched
        self.is_stepped = stepped
        self.undefined = Undefined() if followed else None
        self.variant = (clustered, watched, followed, stepped)
        self.target = code.machine.target
        body = code.body(kernel, self.variant)
        assert body is not None
        self.entry = body
        self.bodies: dict[str, Body] = {}
        self.codes: dict[int, Code] = {}
        self.numbers: dict[int, int] = {}
        """For each body, its number in order of discovery."""
        self.entered: list[Body] = []
        """The functions that it may call, starting with the kernel, in order of discovery."""
        self.frames: dict[int, int] = {}
        self._offsets: dict[int, int] = {}
        self._layout: list[tuple[str, int, int, Any]] | None = None
        self._shared: dict[int, int] = {}
        self._shared_names: list[tuple[str, int, int]] = []
        self.open_ended = False
        self._reach(code, body)
        self.shared_static, self.shared_dynamic = self._lay_out_shared()
        self.stack_bytes = self._stack()

    # --- what it may come to

    def _reach(self, code: Code, body: Body) -> None:
        if id(body) in self.numbers:
            return
        waiting = [(code, body)]
        self._meet(body)
        while waiting:
            code, body = waiting.pop()
            self.codes[id(body)] = code
            self._lay_out_frame(body)
            for symbol in list(body.used.values()):
                if symbol.kind is not Kind.FUNCTION:
                    continue
                found = self.function(code, symbol.name)
                if found is not None and id(found[1]) not in self.numbers:
                    self._meet(found[1])
                    waiting.append(found)

    def _meet(self, body: Body) -> None:
        self.numbers[id(body)] = len(self.numbers)
        self.entered.append(body)

    def function(self, code: Code, name: str) -> tuple[Code, Body] | None:
        """The body of a function that a module names, from that module or one loaded before; None if there is none."""
        own = code.body(name, self.variant)
        if own is not None:
            return code, own
        other = code.machine.exported(name, code)
        if other is None:
            return None
        theirs = other[0].body(name, self.variant)
        return (other[0], theirs) if theirs is not None else None

    def enter(self, code: Code, body: Body) -> None:
        """Adds a function that is called through a pointer to the program."""
        if id(body) not in self.numbers:
            self._meet(body)
            self.codes[id(body)] = code
            self._lay_out_frame(body)

    # --- layout

    def _lay_out_frame(self, body: Body) -> None:
        at = 0
        for symbol in body.variables:
            if symbol.space == ".local" or (symbol.space or "").startswith(".param"):
                align = align_of(symbol)
                at = -(-at // align) * align
                self._offsets[id(symbol)] = at
                count = symbol.count if symbol.count is not None else 1
                at += size_of(symbol) * count
        self.frames[id(body)] = -(-at // 16) * 16

    def _lay_out_shared(self) -> tuple[int, int]:
        """Lays out shared variables of the functions, and those of the module that are used; unsized ones come last."""
        at = 0
        unsized = []
        seen: set[int] = set()
        for body in self.entered:
            for symbol in (*body.variables, *body.used.values()):
                space = symbol.space or ""
                if symbol.kind is not Kind.VARIABLE or not space.startswith(".shared") or id(symbol) in seen:
                    continue
                seen.add(id(symbol))
                if symbol.linkage == ".extern" and (not symbol.dimensions or symbol.dimensions[0] in (None, 0)):
                    unsized.append(symbol)
                    continue
                align = align_of(symbol)
                at = -(-at // align) * align
                self._shared[id(symbol)] = at
                self._shared_names.append((symbol.name, at, size_of(symbol)))
                at += size_of(symbol)
        static = at
        align = max((align_of(symbol) for symbol in unsized), default=1)
        dynamic = -(-at // max(align, 16)) * max(align, 16) if unsized else at
        for symbol in unsized:
            self._shared[id(symbol)] = dynamic
            self._shared_names.append((symbol.name, dynamic, -1))
        return static, dynamic

    def shared_variables(self, size: int) -> list[tuple[str, int, int]]:
        """The shared variables of a CTA with `size` bytes of shared memory: name, offset, size."""
        return [(name, at, length if length >= 0 else size - at) for name, at, length in self._shared_names]

    def _stack(self) -> int:
        """Local memory that a thread needs, in bytes."""
        depth: dict[int, int] = {}
        busy: set[int] = set()

        def need(body: Body) -> int:
            if id(body) in depth:
                return depth[id(body)]
            if id(body) in busy:
                self.open_ended = True
                return 0
            busy.add(id(body))
            most = 0
            for symbol in body.used.values():
                if symbol.kind is Kind.FUNCTION:
                    found = self.function(self.codes[id(body)], symbol.name)
                    if found is not None:
                        most = max(most, need(found[1]))
            busy.discard(id(body))
            depth[id(body)] = most + self.frames[id(body)]
            return depth[id(body)]

        total = need(self.entry)
        if any(self._is_open(body) for body in self.entered):
            self.open_ended = True
        return total + (STACK_BYTES if self.open_ended else 0)

    def _is_open(self, body: Body) -> bool:
        """Whether stack usage depends on data: through `alloca` or indirect calls."""
        if body.takes_stack:
            return True
        for block in body.blocks:
            if block.kind == "call" and isinstance(body.sites[block.last].bound, Bound):
                symbol = body.scope_at(block.last).lookup(call_parts(body.instructions[block.last]).target.text)
                if symbol is None or symbol.kind is not Kind.FUNCTION:
                    return True
        return False

    # --- what the compiler asks

    def known(self, site: Site) -> Known:
        """What the compiler needs to know about an instruction. Raises `Stop` if it cannot be executed."""
        bound = site.bound
        assert isinstance(bound, Bound)
        if is_plain(site):
            return _known_plain(bound, self.target)
        made = described(site, bound, self.target)
        key = (bound, self.target, repr(made.constants), repr(made.parts), made.negated)
        found = _known.get(key)
        if found is None:
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            found = _known[key] = known(made)
        return found

    def frame_offset(self, body: Body, symbol: Symbol, name: str = "") -> int | None:
        """The offset of a thread-local variable in the frame; None for other variables. Of several that are declared together, as by
        `.param .b64 %P<2>`, the one with this name, or the first."""
        found = self._offsets.get(id(symbol))
        if found is None:
            return None
        if symbol.count is not None and name:
            found += size_of(symbol) * int(name[len(symbol.name) :])
        return found + (PARAM_FRAME if (symbol.space or "").startswith(".param") else 0)

    def address(self, symbol: Symbol, code: Code | None = None) -> int:
        """The address of a symbol in its own state space."""
        if symbol.kind is Kind.PARAMETER:
            return self.parameters().get(symbol.name, 0)
        found = self._shared.get(id(symbol))
        if found is not None:
            return found
        return (code or self.code).address_of(symbol)

    def parameters(self) -> dict[str, int]:
        """The offsets of the kernel's parameters, by name."""
        return {name: at for name, at, _, _ in self.layout()}

    def layout(self) -> list[tuple[str, int, int, Any]]:
        """The kernel's parameters: name, offset, size, declaration."""
        if self._layout is None:
            self._layout = self._lay_out_parameters()
        return self._layout

    def _lay_out_parameters(self) -> list[tuple[str, int, int, Any]]:
        at = 0
        found = []
        names = self.code.names
        scope = names.scopes[(*self.entry.path, 0)]
        for parameter in self.entry.function.header.parameters:
            symbol = scope.lookup(parameter.name)
            if symbol is None:
                continue
            align = align_of(symbol)
            at = -(-at // align) * align
            size = size_of(symbol)
            found.append((symbol.name, at, size, symbol))
            at += size
        return found

    def window(self, space: str) -> int:
        return windows.WINDOWS.get(space, 0)

    def changes_stack(self, bound: Any) -> bool:
        return "alloca" in bound.effects or "stackrestore" in bound.effects

    def compiler(self, body: Body) -> Compiler:
        return Compiler(self, body)


_MOST_KNOWN = 8192
_known: dict[Any, Known] = {}
"""Cache of instructions with constants, for all programs."""


@lru_cache(maxsize=_MOST_KNOWN)
def _known_plain(bound: Bound, target: str) -> Known:
    """What the compiler needs to know about an instruction without constants."""
    return known(Operation(bound, target))


def size_of(symbol: Symbol) -> int:
    """Size of a variable in bytes. Raises `Fault` if it exceeds the limit."""
    size = element_bytes(symbol.type) * symbol.vector
    for number in symbol.dimensions:
        size *= number if number is not None else _unsized(symbol)
    if size > MOST_BYTES or size < 0:
        raise Fault("memory", f"`{symbol.name}` takes {size} bytes")
    return size


def _unsized(symbol: Symbol) -> int:
    """The number of elements of an array without an explicit size, from its initializer."""
    declares = symbol.declares
    for declarator in getattr(declares, "declarators", ()):
        if declarator.name.text == symbol.name and isinstance(declarator.initializer, Braces):
            return sum([child.text.count(",") + 1 if isinstance(child, Numbers) else 1 for child in declarator.initializer.children])
    return 0


def align_of(symbol: Symbol) -> int:
    """The alignment of a variable in bytes: the declared one, or that of its type (5.1.7)."""
    return symbol.align or element_bytes(symbol.type) * symbol.vector


def declarator_of(module: Module, symbol: Symbol) -> Declarator | None:
    """The part of a declaration that declares a symbol; None if it is not declared in the module."""
    for declarator in getattr(symbol.declares, "declarators", ()):
        if declarator.name.text == symbol.name:
            return declarator  # type: ignore[no-any-return]
    return None
