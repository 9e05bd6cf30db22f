"""The parameters of a kernel, and synthesized arguments for them that follow from how the kernel uses each parameter."""

from __future__ import annotations

import math

import attrs

from ptxkit.analyses.execution.launch import MOST_ROOM, WORD, Image, MadeUp
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import Access, accesses, size_of
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.machine.loading import declarator_of
from ptxkit.machine.plans import call_parts
from ptxkit.names import Symbol
from ptxkit.syntax import Guard

_IMAGES = ("texture.isa", "surface.isa")
_HANDLES = ("t", "a")
_DIMENSIONS = {".1d": 1, ".2d": 2, ".3d": 3, ".cube": 2, ".a1d": 2, ".a2d": 3, ".acube": 3}
LEAST_ROOM = 1 << 20
"""Least size of a synthesized buffer in bytes."""


@frozen
class Parameter:
    """A parameter of a kernel, or a variable that the host may have written: its PTX name, its size in bytes, and the offsets of
    pointers, handles and function addresses in it."""

    name: str
    size: int
    is_float: bool
    pointers: tuple[int, ...]
    images: tuple[Image, ...]
    tables: tuple[tuple[int, int, int], ...]
    functions: tuple[tuple[int, str], ...] = ()

    @property
    def is_number(self) -> bool:
        """Whether it is a scalar."""
        return not self.pointers and not self.images and not self.functions and self.size <= WORD

    def made_up(self, threads: int) -> MadeUp:
        """A synthesized argument for a launch of `threads` threads. Its buffers have at least 16 bytes for each thread."""
        room = min(MOST_ROOM, max(LEAST_ROOM, 1 << (16 * threads - 1).bit_length()))
        return MadeUp(self.size, self.pointers, self.images, self.functions, self.tables, room, self.is_float)


@fact
def parameters(kernel: Routine) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order."""
    uses = _Uses(kernel)
    scope = kernel.names.scopes[(*kernel.path, 0)]
    found = []
    for declared in kernel.function.header.parameters:
        symbol = scope.lookup(declared.name)
        assert symbol is not None
        kind = types()[symbol.type or ".b64"]
        own = _parameter(symbol, uses)
        is_pointer = getattr(getattr(symbol, "declares", None), "pointer", None) is not None
        is_word = own.size == WORD and not symbol.dimensions and kind.kind != "float" and not own.images and not own.functions
        if is_pointer or (is_word and (symbol.name, 0) not in uses.numbers):
            own = attrs.evolve(own, pointers=tuple(sorted({0, *own.pointers})))
        found.append(own)
    return tuple(found)


@fact
def variables(kernel: Routine) -> tuple[Parameter, ...]:
    """The variables of the module that the kernel or a function of the module reads, that have no initializer, and that none of them
    writes."""
    return _variables(kernel)[0]


@fact
def states(kernel: Routine) -> tuple[Parameter, ...]:
    """The other variables of the module that the kernel or a function of the module reads. Their value comes from an initializer, an
    earlier launch, or the host."""
    return _variables(kernel)[1]


@fact
def _variables(kernel: Routine) -> tuple[tuple[Parameter, ...], tuple[Parameter, ...]]:
    read: dict[int, Symbol] = {}
    written: set[int] = set()
    for routine in (kernel, *[one for one in kernel.siblings if not one.function.header.is_entry]):
        for access in accesses(routine):
            symbol = access.where.symbol if access.where is not None else None
            if symbol is not None and symbol.space in (".global", ".const"):
                if access.writes:
                    written.add(id(symbol))
                if access.reads:
                    read[id(symbol)] = symbol
    uses = _Uses(kernel)
    found: tuple[list[Parameter], list[Parameter]] = ([], [])
    for symbol in read.values():
        declarator = declarator_of(kernel.module, symbol)
        is_set = declarator is not None and declarator.initializer is not None
        own = _parameter(symbol, uses)
        if symbol.linkage != ".extern" and own.size:
            found[id(symbol) in written or is_set].append(own)
    return tuple(found[0]), tuple(found[1])


def _parameter(symbol: Symbol, uses: _Uses) -> Parameter:
    kind = types().get(symbol.type or ".b64")
    size = size_of(symbol) or 0
    images = tuple(sorted([one for key, one in uses.images.items() if key[0] == symbol.name], key=lambda one: one.at))
    handles = {one.at for one in images}
    pointers = tuple(sorted({at for name, at in uses.pointers if name == symbol.name and at + WORD <= size} - handles))
    tables = tuple(sorted([(at, *table) for (name, at), table in uses.tables.items() if name == symbol.name and at in pointers]))
    functions = tuple(sorted([(at, called) for (name, at), called in uses.functions.items() if name == symbol.name]))
    pointers = tuple([at for at in pointers if at not in dict(functions)])
    return Parameter(symbol.name, size, kind is not None and kind.kind == "float", pointers, images, tables, functions)


Holder = tuple[str, int]
"""A parameter or variable, and an offset in it."""


class _Uses:
    """Which parts of parameters and variables are pointers, handles, and 64-bit scalars."""

    def __init__(self, kernel: Routine) -> None:
        self.known = values(kernel)
        self.numbering = ssa(kernel)
        self.accesses = {access.instruction: access for access in accesses(kernel)}
        self.pointers: set[Holder] = set()
        self.tables: dict[Holder, tuple[int, int]] = {}
        """Pointers to tables of pointers: offset of the first pointer in the table, and distance between pointers."""
        self.images: dict[Holder, Image] = {}
        self.numbers: set[Holder] = set()
        self.functions: dict[Holder, str] = {}
        """Function addresses that the kernel calls, each with a function that fits the call."""
        for access in accesses(kernel):
            self._points(access.address)
        bounds = bindings(kernel)
        for i, bound in enumerate(bounds):
            if isinstance(bound, Bound) and bound.form.file in _IMAGES:
                self._handle(kernel, i, bound)
            elif isinstance(bound, Bound) and bound.flow == "call":
                self._called(kernel, i)
        for number, readers in enumerate(self.numbering.readers):
            at = self.numbering.values[number].instruction
            found = self._holder(self.known.of(number)) if readers and at in self.accesses else None
            if found is not None and all(_computes(bounds[i]) for i in readers):
                self.numbers.add(found)

    def _points(self, address: Term | None) -> None:
        """Records which terms of an address are pointers: those held by a parameter or variable, or loaded from memory."""
        for atom, factor in address.linear[1] if address is not None else ():
            if factor != 1 or atom.width != 8 * WORD:
                continue
            holder = self._holder(atom)
            if holder is not None:
                self.pointers.add(holder)
                continue
            loaded = self._loaded(atom)
            if loaded is None or loaded.address is None:
                continue
            offset, parts = loaded.address.linear
            base = next((holder for part, times in parts if times == 1 and (holder := self._holder(part)) is not None), None)
            if base is not None:
                steps = [times for part, times in parts if self._holder(part) is None]
                self.pointers.add(base)
                self.tables.setdefault(base, (offset % (1 << 32), math.gcd(*steps) if steps else 0))

    def _holder(self, term: Term) -> Holder | None:
        """The parameter or variable that holds a 64-bit value, and the offset in it; None if it is neither."""
        if term.width != 8 * WORD:
            return None
        if term.operator == "parameter":
            symbol, offset = self.known.symbol(term), term.data[-2]
            return (symbol.name, offset if isinstance(offset, int) else 0) if symbol is not None else None
        loaded = self._loaded(term)
        if loaded is None or loaded.where is None or loaded.where.symbol is None or loaded.where.symbol.space not in (".global", ".const"):
            return None
        at = loaded.where.offset.constant
        return (loaded.where.symbol.name, at) if at is not None else None

    def _loaded(self, term: Term) -> Access | None:
        """The load that produced this value."""
        number = term.ssa_value if term.operator == "value" else None
        if number is None or number >= len(self.numbering.values):
            return None
        access = self.accesses.get(self.numbering.values[number].instruction)
        return access if access is not None and access.reads and not access.writes else None

    def _called(self, kernel: Routine, i: int) -> None:
        """Records a candidate for a call through a register: the first function of the module with the same number of parameters and
        results."""
        called = call_parts(kernel.instructions[i])
        term = self.known.operand(i, called.target)
        holder = self._holder(term) if term is not None else None
        if holder is None:
            return
        arity = (len(called.results), len(called.arguments))
        for one in kernel.siblings:
            header = one.function.header
            if not header.is_entry and (len(header.returns), len(header.parameters)) == arity:
                self.functions.setdefault(holder, one.name)

    def _handle(self, kernel: Routine, i: int, bound: Bound) -> None:
        """Records the handle of a texture or surface, the first operand in brackets."""
        operand = next((one for one in bound.operands if one.name in _HANDLES), None)
        if operand is None:
            return
        children = kernel.instructions[i].children
        node = children[(2 if type(children[0]) is Guard else 1) + operand.path[0]]
        for step in operand.path[1:]:
            node = node.children[step]
        term = self.known.operand(i, node)
        holder = self._holder(term) if term is not None else None
        if holder is not None:
            geometry = next((one for one in bound.modifiers if one in _DIMENSIONS), ".2d")
            is_texture = bound.form.file == "texture.isa"
            is_float = is_texture and bound.slot(".dtype").startswith(".f")
            self.images[holder] = Image(holder[1], _DIMENSIONS[geometry], is_texture, is_float, geometry.startswith(".a"))


def _computes(bound: object) -> bool:
    """Whether the instruction only computes, and not with addresses."""
    if not isinstance(bound, Bound) or bound.memory or bound.flow == "call":
        return False
    return "window" not in repr(bound.form.computes)
