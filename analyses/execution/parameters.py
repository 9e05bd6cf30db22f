"""The parameters of a kernel: what they are called, and arguments for those that nobody gave, by how the kernel uses them."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ptxkit.analyses.execution.launch import MadeUp
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.isa.binding import Bound
from ptxkit.isa.types import types
from ptxkit.names import Symbol
from ptxkit.syntax import Guard

_IMAGES = ("texture.isa", "surface.isa")
_HANDLES = ("t", "a")
_DIMENSIONS = {".1d": 1, ".2d": 2, ".3d": 3, ".cube": 2, ".a1d": 2, ".a2d": 3, ".acube": 3}
WORD = 8
"""The bytes of a pointer and of a handle."""


@attrs.frozen
class Parameter:
    """A parameter of a kernel: its name in the PTX, its bytes, and at which offsets it has what."""

    name: str
    size: int
    is_float: bool
    pointers: tuple[int, ...]
    textures: tuple[tuple[int, int], ...]
    surfaces: tuple[tuple[int, int], ...]

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return not self.pointers and not self.textures and not self.surfaces and self.size <= WORD

    def made_up(self, number: int, bytes_: int) -> MadeUp:
        """An argument for it: numbers are `number`, buffers have so many bytes."""
        return MadeUp(self.size, number, self.pointers, self.textures, self.surfaces, bytes_, self.is_float)


@fact
def parameters(kernel: Routine) -> tuple[Parameter, ...]:
    """The parameters of a kernel, in order."""
    uses = _Uses(kernel)
    header = kernel.function.header
    scope = kernel.names.scopes[(*kernel.path, 0)]
    found = []
    for declared in header.parameters:
        symbol = scope.lookup(declared.name)
        assert symbol is not None
        found.append(_parameter(symbol, uses))
    return tuple(found)


def _parameter(symbol: Symbol, uses: _Uses) -> Parameter:
    kind = types()[symbol.type or ".b64"]
    count = symbol.count if symbol.count is not None else 1
    size = max(1, kind.bytes) * symbol.vector * (count or 1)
    textures = tuple(sorted(uses.images.get((symbol.name, True), {}).items()))
    surfaces = tuple(sorted(uses.images.get((symbol.name, False), {}).items()))
    images = {at for at, _ in (*textures, *surfaces)}
    own = {at for at in uses.pointers.get(symbol.name, ()) if at + WORD <= size}
    if getattr(getattr(symbol, "declares", None), "pointer", None) is not None:
        own.add(0)
    if size == WORD and not symbol.dimensions and kind.kind != "float" and 0 not in uses.numbers.get(symbol.name, ()):
        own.add(0)
    return Parameter(symbol.name, size, kind.kind == "float", tuple(sorted(own - images)), textures, surfaces)


class _Uses:
    """At which offsets of which parameters a kernel has pointers, handles, and 64-bit numbers."""

    def __init__(self, kernel: Routine) -> None:
        self.known = values(kernel)
        self.pointers: dict[str, set[int]] = {}
        self.images: dict[tuple[str, bool], dict[int, int]] = {}
        self.numbers: dict[str, set[int]] = {}
        for access in accesses(kernel):
            for name, at in self._bases(access.address):
                self.pointers.setdefault(name, set()).add(at)
        bounds = bindings(kernel)
        for i, bound in enumerate(bounds):
            if isinstance(bound, Bound) and bound.form.file in _IMAGES:
                self._handle(kernel, i, bound)
        numbering = ssa(kernel)
        for number, readers in enumerate(numbering.readers):
            found = self._parameter(self.known.of(number)) if readers else None
            if found is not None and all(_computes(bounds[i]) for i in readers):
                self.numbers.setdefault(found[0], set()).add(found[1])

    def _bases(self, address: Term | None) -> Iterator[tuple[str, int]]:
        """The parameters that an address is the sum of, with offsets in them."""
        if address is None:
            return
        for atom, factor in address.linear[1]:
            inner = atom.args[0] if atom.operator in ("zext", "trunc") else atom
            found = self._parameter(inner)
            if factor == 1 and found is not None:
                yield found

    def _parameter(self, term: Term) -> tuple[str, int] | None:
        symbol = self.known.symbol(term) if term.operator == "parameter" and term.width == 8 * WORD else None
        if symbol is None:
            return None
        offset = term.data[-2]
        return symbol.name, offset if isinstance(offset, int) else 0

    def _handle(self, kernel: Routine, i: int, bound: Bound) -> None:
        """The handle of a texture or surface: what is first in brackets."""
        operand = next((one for one in bound.operands if one.name in _HANDLES), None)
        if operand is None:
            return
        children = kernel.instructions[i].children
        node = children[(2 if type(children[0]) is Guard else 1) + operand.path[0]]
        for step in operand.path[1:]:
            node = node.children[step]
        term = self.known.operand(i, node)
        found = self._parameter(term) if term is not None else None
        if found is not None:
            geometry = next((_DIMENSIONS[one] for one in bound.modifiers if one in _DIMENSIONS), 2)
            self.images.setdefault((found[0], bound.form.file == "texture.isa"), {})[found[1]] = geometry


def _computes(bound: object) -> bool:
    """Whether an instruction only computes, and not with addresses."""
    if not isinstance(bound, Bound) or bound.memory or bound.flow == "call":
        return False
    return "window" not in repr(bound.form.computes)
