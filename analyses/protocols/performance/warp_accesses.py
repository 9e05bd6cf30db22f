"""The addresses that the lanes of a warp access together, relative to each other, as far as they follow from thread indices.

An address is split into a part that is uniform in a warp, with an arbitrary value, and the offset of each lane. In loops, the first
iteration is analysed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.cfg.loops import loops
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.launch import WARP
from ptxkit.analyses.memory.accesses import Access
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.analyses.symbolic.domains import lanes
from ptxkit.analyses.symbolic.evaluate import evaluate
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.symbolic.vectors import Numbers
from ptxkit.analyses.uniformity.interprocedural import solution
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.analyses.uniformity.template import INDICES
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.registers import special_register
from ptxkit.syntax import Path

LINE = 128
"""Bytes of all banks of shared memory together, and of a cache line."""

SHOWN = 3
"""Maximum number of similar accesses shown with a finding."""

_SIMILAR = frozenset(("address", "window", "literal"))
"""Leaves that are the same for all threads of a CTA."""


@frozen(eq=False)
class WarpAccess:
    """The addresses of the lanes of one warp: those that execute the instruction, or all lanes if that is unknown."""

    threads: tuple[int, ...]
    """Threads by their linear index."""
    offsets: tuple[int, ...]
    """The offset of each address from the first one in bytes, possibly negative."""
    residue: int
    """The first address modulo `modulus`."""
    modulus: int
    """The largest power of two, at most 128, modulo which the address is known; 1 if nothing is."""
    assumption: str
    """A description of what is assumed about the launch; empty if nothing is."""

    def lane(self, index: int) -> int:
        return self.threads[index] % WARP

    def starts(self, unit: int, size: int) -> list[int]:
        """Possible positions of the first address in a unit of `unit` bytes (a power of two), if accesses of `size` bytes are aligned."""
        step = min(unit, self.modulus)
        return [start for start in range(self.residue % step, unit, step) if start % min(unit, size) == 0] or [0]


class WarpAccesses:
    """The accesses of a function from the perspective of a warp."""

    def __init__(self, routine: Routine) -> None:
        self._routine = routine
        self._uniformity = uniformity(routine)
        self._template = solution(routine, self._uniformity.context).template
        self._numbers: dict[tuple[int, ...], dict[Term, Numbers | None]] = {}
        self._starts: dict[Term, Term | None] = {}

    def of(self, access: Access) -> WarpAccess | None:
        """The addresses that the lanes of a warp access together; None if unknown, or if fewer than two lanes execute the access."""
        threads = self._threads(access)
        if access.address is None or len(threads) < 2:
            return None
        block = control_flow(self._routine).block_of[access.instruction]
        constant, linear = access.address.linear
        total = [0] * len(threads)
        residue, modulus = constant, LINE
        parts = list(linear)
        opened: set[Term] = set()
        while parts:
            atom, factor = parts.pop()
            numbers = self._of_threads(atom, threads)
            start = self._start(atom) if atom.operator == "phi" and atom not in opened else None
            if numbers is not None:
                total = [before + factor * number for before, number in zip(total, numbers, strict=True)]
            elif self._is_uniform(atom, block):
                bits = ~(atom.known.zeros | atom.known.ones)
                residue += factor * atom.known.ones
                modulus = min(modulus, (bits & -bits) * (factor & -factor))
            elif start is not None:
                opened.add(atom)
                parts += [(inner, factor * times) for inner, times in start.linear[1]]
            else:
                return None
        offsets = tuple([signed((number - total[0]) % (1 << access.address.width), access.address.width) for number in total])
        return WarpAccess(threads, offsets, (residue + total[0]) % modulus, modulus, self._template.assumption)

    def _threads(self, access: Access) -> tuple[int, ...]:
        """The threads of the warp of which the most execute the access."""
        found = self._uniformity.threads(access.instruction)
        if found is not None and found.one_per_warp:
            return ()
        size = self._template.count
        warps = found.warps if found is not None else ((1 << min(WARP, size)) - 1,)
        number = max(range(len(warps)), key=lambda i: (warps[i].bit_count(), -i))
        lanes = [lane for lane in range(access.lanes or WARP) if warps[number] >> lane & 1]
        return tuple([WARP * number + lane for lane in lanes])

    def _of_threads(self, term: Term, threads: tuple[int, ...]) -> Numbers | None:
        """The value of a term in some threads, in the first iteration of enclosing loops."""

        def of_leaf(leaf: Term) -> Numbers | None:
            if leaf.operator == "phi":
                start = self._start(leaf)
                return None if start is None else self._of_threads(start, threads)
            if leaf.operator not in ("special", "value"):
                return None
            found = [self._template.number(leaf, thread) for thread in threads]
            return None if None in found else tuple(found)  # type: ignore[arg-type]

        return evaluate(term, lanes(of_leaf, len(threads)), self._numbers.setdefault(threads, {}))

    def _start(self, phi: Term) -> Term | None:
        """The value of a loop variable on entry, if it is the same on all entries; never in terms of itself."""
        if phi not in self._starts:
            self._starts[phi] = None
            self._starts[phi] = self._find_start(phi)
        return self._starts[phi]

    def _find_start(self, phi: Term) -> Term | None:
        if phi.ssa_value is None:
            return None
        value = ssa(self._routine).values[phi.ssa_value]
        loop = next((loop for loop in loops(self._routine).loops if loop.header == value.block), None)
        if loop is None or not loop.is_reducible:
            return None
        sources = (*control_flow(self._routine).blocks[value.block].predecessors, -1)
        known = values(self._routine)
        pairs = zip(value.operands, sources, strict=False)
        starts = {known.of(operand) for operand, source in pairs if operand >= 0 and (source < 0 or source not in loop)}
        return starts.pop() if len(starts) == 1 else None

    def _is_uniform(self, term: Term, block: int) -> bool:
        """Whether all lanes of a warp have the same value."""
        return all(self._is_leaf_uniform(leaf, block) for leaf in _leaves(term))

    def _is_leaf_uniform(self, leaf: Term, block: int) -> bool:
        if leaf.operator in _SIMILAR:
            return True
        if leaf.operator == "parameter":
            return self._routine.function.header.is_entry
        if leaf.operator == "special":
            register = special_register(leaf.name)
            return register is not None and not register.volatile and leaf.name not in INDICES
        if leaf.ssa_value is not None:
            return self._uniformity.used(leaf.ssa_value, block) >= Level.WARP
        return False


def more(found: WarpAccess, others: Sequence[Access]) -> list[str]:
    """Notes for a finding: the number of similar accesses, and the assumptions."""
    count = len(others)
    notes = [f"{count} more in this function {'does' if count == 1 else 'do'} the same"] if others else []
    return [*notes, f"assumed: {found.assumption}"] if found.assumption else notes


def shown(routine: Routine, others: Sequence[Access]) -> list[tuple[Path, str]]:
    """The locations of the first few others."""
    return [((*routine.where(access.instruction), access.child), "so does this") for access in others[:SHOWN]]


def _leaves(term: Term) -> list[Term]:
    """The leaves of a term; joins count as leaves."""
    inside = closure([term], lambda at: at.inner if at.operator != "join" else ())
    return [at for at in inside if at.is_leaf or at.operator == "join"]


@fact
def warp_accesses(routine: Routine) -> WarpAccesses:
    """The accesses of a function from the perspective of a warp."""
    return WarpAccesses(routine)
