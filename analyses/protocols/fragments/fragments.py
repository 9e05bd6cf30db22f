"""Matrix fragments in registers: the fragments that reach each operand of a matrix instruction, through copies, merges and loops
(9.7.15.3).

The table says which operands hold parts of matrices. The manual leaves the layout of an opaque fragment unspecified, so only an instruction
with the same matrix, shape, type and layout can interpret it. In between, elementwise operations are allowed on the registers in order; the
result of an operation on one fragment's registers still counts as that fragment.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.bindings import bindings
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.registers.registers import registers
from ptxkit.analyses.registers.ssa import Origin, ssa
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound, BoundOperand
from ptxkit.isa.forms import Fragment
from ptxkit.isa.types import types
from ptxkit.syntax import Guard, Path


@frozen
class Source:
    """A register of a fragment that an instruction created."""

    instruction: int
    fragment: Fragment
    index: int
    """Its index in the fragment."""
    is_changed: bool
    """Whether it was computed with on the path."""


@frozen
class FragmentUse:
    """An operand that is read as a fragment."""

    instruction: int
    child: int
    """Index of the operand among the children of the instruction."""
    fragment: Fragment
    sources: tuple[frozenset[Source], ...]
    """For each register, the fragments that it may come from; other sources are not listed."""


@frozen
class Disagreement:
    """A fragment that differs from what its reader expects."""

    use: FragmentUse
    source: Source
    is_certain: bool
    """Whether all fragments that may reach the operand are wrong."""


@frozen
class MatrixAccess:
    """A load or store of an opaque fragment."""

    instruction: int
    child: int
    """Index of the address among the children of the instruction."""
    stride_child: int
    """Index of the stride; -1 if it is omitted."""
    fragment: Fragment
    address: Term | None
    stride: Term | None
    fragment_bytes: int

    @property
    def element_bits(self) -> int:
        return types()[self.fragment.type].bits

    @property
    def default_stride(self) -> int:
        """The size of the leading dimension, in elements (9.7.15.3.2)."""
        m, n, k = dimensions(self.fragment.shape)
        rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[self.fragment.matrix]
        return columns if self.fragment.layout == ".row" else rows


def dimensions(shape: str) -> tuple[int, int, int]:
    """The three numbers of `.m16n8k4`."""
    m, n, k = map(int, re.findall(r"\d+", shape))
    return m, n, k


@fact
def fragment_uses(routine: Routine) -> tuple[FragmentUse, ...]:
    """The reachable operands that are read as opaque fragments, in text order."""
    bounds = bindings(routine)
    if not _has_any(routine):
        return ()
    reader = _Sources(routine)
    found = []
    for i in _reachable(routine):
        bound = bounds[i]
        for fragment, operand in _fragments(bound):
            if operand.reads and fragment.is_opaque:
                found.append(FragmentUse(i, _child(routine, i, operand), fragment, reader.of(i, operand)))
    return tuple(found)


def disagreements(routine: Routine, differ: Callable[[Fragment, Fragment], bool]) -> Iterator[Disagreement]:
    """Uses whose sources all, or partly, `differ` from what the use expects; one for each operand."""
    for use in fragment_uses(routine):
        if not all(use.sources):
            continue
        everything = frozenset().union(*use.sources)
        wrong = [source for source in everything if differ(source.fragment, use.fragment)]
        if wrong:
            first = min(wrong, key=lambda source: (source.instruction, source.index))
            yield Disagreement(use, first, len(wrong) == len(everything))


def where(routine: Routine, use: FragmentUse) -> Path:
    """Where the operand of a use stands."""
    return (*routine.where(use.instruction), use.child)


@fact
def matrix_accesses(routine: Routine) -> tuple[MatrixAccess, ...]:
    """The reachable loads and stores of opaque fragments, in text order."""
    bounds = bindings(routine)
    if not _has_any(routine):
        return ()
    known = values(routine)
    found = []
    for i in _reachable(routine):
        bound = bounds[i]
        for fragment, operand in _fragments(bound):
            assert isinstance(bound, Bound)
            address = bound.operand(bound.memory[0].operand) if bound.memory else None
            if address is None or not fragment.is_opaque:
                continue
            children = routine.instructions[i].children
            stride = bound.operand("stride")
            at = _child(routine, i, address)
            stride_at = _child(routine, i, stride) if stride is not None else -1
            found.append(
                MatrixAccess(
                    i,
                    at,
                    stride_at,
                    fragment,
                    known.operand(i, children[at]),
                    known.operand(i, children[stride_at]) if stride is not None else None,
                    operand.width * types()[operand.types[0]].bytes,
                )
            )
    return tuple(found)


@fact
def _has_any(routine: Routine) -> bool:
    """Whether the function has any opaque fragments."""
    return any(fragment.is_opaque for bound in set(bindings(routine)) if isinstance(bound, Bound) for fragment in bound.fragments)


def _reachable(routine: Routine) -> Iterator[int]:
    flow = control_flow(routine)
    for block in sorted(flow.reachable):
        yield from range(flow.blocks[block].start, flow.blocks[block].end)


def _fragments(bound: object) -> Iterator[tuple[Fragment, BoundOperand]]:
    if isinstance(bound, Bound):
        for fragment in bound.fragments:
            operand = bound.operand(fragment.operand)
            if operand is not None:
                yield fragment, operand


def _child(routine: Routine, i: int, operand: BoundOperand) -> int:
    return operand.path[0] + (2 if type(routine.instructions[i].children[0]) is Guard else 1)


class _Sources:
    """Tracks the sources of fragment registers."""

    def __init__(self, routine: Routine) -> None:
        self.routine = routine
        self.ssa = ssa(routine)
        self.registers = registers(routine)
        self.bounds = bindings(routine)
        self._known: dict[tuple[int, bool], frozenset[Source]] = {}

    def of(self, i: int, operand: BoundOperand) -> tuple[frozenset[Source], ...]:
        """The sources of each register of an operand of instruction `i`."""
        read = self.registers.of(i, self.routine.instructions[i].children[_child(self.routine, i, operand)])
        return tuple([self.walk(self.ssa.read(i, register)) for register in read])

    def walk(self, value: int) -> frozenset[Source]:
        known = self._known.get((value, False))
        if known is None:
            found: set[Source] = set()

            def before(value: tuple[int, bool]) -> list[tuple[int, bool]]:
                at, is_changed = value
                if at < 0:
                    return []
                of = self.ssa.values[at]
                following = [(operand, is_changed) for operand in of.operands]
                if of.origin is not Origin.WRITE:
                    return following
                source = self._made(at, is_changed)
                if source is None:
                    return [*following, *self._through(of.instruction, is_changed)]
                found.add(source)
                return following

            closure([(value, False)], before)
            known = self._known[value, False] = frozenset(found)
        return known

    def _made(self, value: int, is_changed: bool) -> Source | None:
        """The fragment register that a written value is."""
        i = self.ssa.values[value].instruction
        for fragment, operand in _fragments(self.bounds[i]):
            if not operand.writes or not fragment.is_opaque:
                continue
            positions = [position for position, part in enumerate(operand.shape.parts) if part.kind == "register"] or list(
                range(operand.width)
            )
            node = self.routine.instructions[i].children[_child(self.routine, i, operand)]
            for position, register in zip(positions, self.registers.of(i, node), strict=False):
                if register == self.ssa.values[value].register:
                    return Source(i, fragment, position, is_changed)
        return None

    def _through(self, i: int, is_changed: bool) -> list[tuple[int, bool]]:
        """The values that instruction `i` copies, or computes a value of the same type from in each thread."""
        bound = self.bounds[i]
        if not isinstance(bound, Bound) or bound.converges is not None or bound.memory or bound.flow or not bound.form.modelled:
            return []
        written = [operand for operand in bound.operands if operand.writes]
        if len(written) != 1 or len(self.ssa.definitions[i]) != 1:
            return []
        copied = {c.what.value for c in bound.form.computes if c.what.target == written[0].name and bound.holds(c.when)}
        found = []
        for operand in bound.operands:
            if operand.reads and operand.shape.kind == "register" and operand.types == written[0].types:
                node = self.routine.instructions[i].children[_child(self.routine, i, operand)]
                is_copy = operand.name in copied
                found += [(self.ssa.read(i, r), is_changed or not is_copy) for r in self.registers.of(i, node)]
        return found
