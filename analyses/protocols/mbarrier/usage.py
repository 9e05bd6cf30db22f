"""The uses of a kernel's mbarriers, from its text alone (9.7.14.15).

Kernels that take their work from a scheduler in memory cannot be executed by `dynamic_checks`. The initializations, arrivals, expect-tx
operations and waits are in the text, however. Here they are grouped by mbarrier, for checks that find missing and inconsistent uses. A ring
is the set of mbarriers that one instruction iterates over.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import attrs

from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.mbarriers import MBARRIER_BYTES, Where, guarded, in_its_cta, may_be_same, mbarrier_operand, where
from ptxkit.analyses.events.steps import ON_MBARRIERS, Does, Step, steps
from ptxkit.analyses.framework.bindings import bindings, has_matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.memory.address import Address
from ptxkit.analyses.numbers.arithmetic import signed
from ptxkit.analyses.numbers.bits import bits
from ptxkit.analyses.symbolic.environment import settler
from ptxkit.analyses.symbolic.induction import NOTHING, Firsts, Numbers, rounds
from ptxkit.analyses.symbolic.terms import Term, walk
from ptxkit.analyses.symbolic.values import values
from ptxkit.analyses.uniformity.uniformity import uniformity
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound

Base = tuple[tuple[int, int], ...]
"""The terms of an address besides its offset: serial numbers of terms, with factors."""
Location = Address[Base, int]
"""An mbarrier: the base of its address, and the offset."""

MOST_SHARES = 32
"""Maximum number of groups of threads that are distinguished by the mbarrier that they use."""
SHARED_ADDRESS_BITS = 32
"""Width of shared memory addresses in bits."""


@frozen(eq=False)
class Use:
    """An operation on one or more mbarriers."""

    step: Step
    where: Where | None
    base: Base | None
    """None if the address is not understood."""
    offsets: Numbers
    """The offsets of the mbarriers from the base, as far as they are certain; the operation iterates over them."""
    index: Term | None
    """The part of the address that depends on the stage."""
    is_fixed: bool
    """Whether it is always the same mbarrier."""
    is_known: bool
    """Whether exactly these mbarriers are used."""
    is_remote: bool
    """Whether it may be in another CTA of the cluster."""
    iterates: bool = False
    """Whether the stage is a loop value that wraps around."""
    threads: int | None = None
    """The threads that perform this operation, as a bit set, if others perform it on other mbarriers; None if all threads that reach it
    do."""

    @property
    def instruction(self) -> int:
        return self.step.instruction

    @property
    def does(self) -> Does:
        return self.step.does

    @property
    def locations(self) -> list[Location]:
        return [Address(self.base, offset) for offset in sorted(self.offsets)] if self.base is not None else []


@frozen(eq=False)
class Uses:
    """Operations on mbarriers."""

    uses: tuple[Use, ...]

    @cached_property
    def _of(self) -> dict[Does, tuple[Use, ...]]:
        found: dict[Does, list[Use]] = {}
        for use in self.uses:
            found.setdefault(use.does, []).append(use)
        return {does: tuple(own) for does, own in found.items()}

    def of(self, does: Does) -> tuple[Use, ...]:
        """The uses of one kind."""
        return self._of.get(does, ())


@frozen(eq=False)
class Usage(Uses):
    """All operations of a kernel on its mbarriers."""

    mbarriers: dict[Location, tuple[Use, ...]]
    """For each mbarrier, its initializations."""
    is_closed: bool
    """Whether there are no other operations: no called function may perform any."""


@fact
def usage(routine: Routine) -> Usage:
    """The mbarriers of a kernel. If lanes initialize an mbarrier each, there is a use for each of them."""
    found = [(use, _shares(routine, use) if use.does is Does.INIT else []) for use in _uses(routine)]
    return _usage(routine, tuple([one for use, shares in found for one in shares or (use,)]))


@fact
def usage_by_thread(routine: Routine) -> Usage:
    """The mbarriers of a kernel, with a separate use for each group of threads if the thread index selects the mbarrier."""
    known = usage(routine)
    shares = {use: _shares(routine, use) for use in known.uses if use.threads is None}
    if not any(shares.values()):
        return known
    return _usage(routine, tuple([one for use in known.uses for one in shares.get(use) or (use,)]))


def _usage(routine: Routine, uses: tuple[Use, ...]) -> Usage:
    mbarriers: dict[Location, list[Use]] = {}
    for use in uses:
        if use.does is Does.INIT:
            for location in use.locations:
                mbarriers.setdefault(location, []).append(use)
    return Usage(uses, {location: tuple(own) for location, own in mbarriers.items()}, not _calls_others(routine))


def _calls_others(routine: Routine) -> bool:
    """Whether a function of the module is called that may operate on mbarriers; library functions do not count."""
    if not has_matching(routine, lambda bound: bound.flow == "call"):
        return False
    return any(
        step.does in ON_MBARRIERS
        for other in routine.siblings
        if not other.function.header.is_entry
        for own in steps(other).values()
        for step in own
    )


def _uses(routine: Routine) -> Iterator[Use]:
    for i, own in steps(routine).items():
        bound = bindings(routine)[i]
        operand = mbarrier_operand(bound) if isinstance(bound, Bound) else None
        for step in own:
            if step.does not in ON_MBARRIERS or operand is None:
                continue
            at = where(routine, i, operand.path[0])
            if step.address is None:
                yield Use(step, at, None, NOTHING, None, False, False, True)
                continue
            yield _use(routine, step, at, settler(routine).term(guarded(routine, i, step.address)), None)


def _use(routine: Routine, step: Step, at: Where | None, address: Term, threads: int | None) -> Use:
    (base, offset), index = address_parts(routine, address)
    steps_taken = rounds(routine).numbers(index)
    # shared memory addresses have 32 bits, whatever the width of the register
    mask = (1 << min(index.width, SHARED_ADDRESS_BITS)) - 1
    offsets = frozenset([signed(offset + offset_ & mask, mask.bit_length()) for offset_ in steps_taken])
    return Use(
        step,
        at,
        base,
        offsets,
        index,
        index.constant is not None,
        rounds(routine).is_all(index),
        in_its_cta(values(routine).terms, address) is not address,
        len(offsets) > 1 and _iterates(index),
        threads,
    )


def _shares(routine: Routine, use: Use) -> list[Use]:
    """A use for each group of threads whose indices alone select a different mbarrier; empty if that is not so."""
    terms, reach = values(routine).terms, uniformity(routine).reach
    template = reach.template
    # an mbarrier without a base, or with a single start, is the same for all threads
    if use.base is None or use.step.address is None or len(use.base) < 2 or not template.has_indices:
        return []
    address = settler(routine).term(guarded(routine, use.instruction, use.step.address))
    part, _ = terms.split(address, template.is_known)
    numbers = template.numbers(part) if part.constant is None else None
    if numbers is None:
        return []
    groups: dict[int, int] = {}
    for thread in bits(reach.instruction(use.instruction).ever):
        groups[numbers[thread]] = groups.get(numbers[thread], 0) | 1 << thread
    if len(groups) > MOST_SHARES:
        return []
    rest = terms.sub(address, part)
    own = [(terms.add(rest, terms.constant(number, address.width)), threads) for number, threads in sorted(groups.items())]
    return [_use(routine, _step_of(routine, use.step, threads), use.where, where_, threads) for where_, threads in own]


def _step_of(routine: Routine, step: Step, threads: int) -> Step:
    """An initialization as these threads execute it: with the count that all of them have, if the thread index alone selects it."""
    if step.does is not Does.INIT or step.amount is None or step.amount.constant is not None:
        return step
    numbers = uniformity(routine).reach.template.numbers(step.amount)
    found = {numbers[thread] for thread in bits(threads)} if numbers is not None else set()
    if len(found) != 1:
        return step
    return attrs.evolve(step, amount=values(routine).terms.constant(found.pop(), step.amount.width))


def _iterates(index: Term) -> bool:
    within = walk(index)
    return all(term.operator == "phi" for term in within if term.is_leaf) and not any(term.operator == "join" for term in within)


def address_parts(routine: Routine, address: Term) -> tuple[Location, Term]:
    """Splits an address into its base and the part that depends on the stage."""
    terms = values(routine).terms
    at = in_its_cta(terms, settler(routine).term(address))
    index, base = terms.split(at, lambda atom: bool(rounds(routine).numbers(atom)))
    return Address(tuple([(atom.serial, factor) for atom, factor in base.linear[1]]), at.linear[0]), index


# --- rings


@frozen(eq=False)
class Ring(Uses):
    """mbarriers that instructions iterate over, with the operations that are certainly on them; a single one if none does."""

    base: Base
    offsets: Numbers
    others: tuple[Use, ...]
    """Operations that may be on them."""

    @property
    def moves(self) -> bool:
        """Whether there are several."""
        return len(self.offsets) > 1

    def may_be(self, *does: Does) -> bool:
        """Whether one of these operations may be performed on them."""
        return any(use.does in does for use in (*self.uses, *self.others))


@fact
def rings(routine: Routine) -> tuple[Ring, ...]:
    """The initialized mbarriers of a kernel, by ring."""
    return _rings(usage(routine))


@fact
def rings_by_thread(routine: Routine) -> tuple[Ring, ...]:
    """The same, for the uses by groups of threads."""
    known = usage_by_thread(routine)
    return rings(routine) if known is usage(routine) else _rings(known)


def _rings(known: Usage) -> tuple[Ring, ...]:
    chosen: dict[Location, Location] = {location: location for location in known.mbarriers}

    def find(location: Location) -> Location:
        while chosen.setdefault(location, location) != location:
            location = chosen[location]
        return location

    for use in known.uses:
        if use.does is not Does.INIT:
            for one, other in pairwise(use.locations):
                chosen[find(other)] = find(one)
    groups: dict[Location, set[int]] = {}
    for location in list(chosen):
        if location in known.mbarriers:
            groups.setdefault(find(location), set()).add(location.offset)
    found = []
    for (base, _), offsets in groups.items():
        uses = [use for use in known.uses if use.base == base and use.offsets & offsets]
        hull = [init.where for init in known.uses if init.does is Does.INIT and init.base == base and init.offsets & offsets]
        others = [use for use in known.uses if use not in uses and not _is_elsewhere(use, base, hull)]
        found.append(Ring(tuple(uses), base, frozenset(offsets), tuple(others)))
    return tuple(found)


def _is_elsewhere(use: Use, base: Base, hull: list[Where | None]) -> bool:
    if use.base == base and use.is_known:
        return True
    return use.where is not None and not any(one is None or may_be_same(use.where, one) for one in hull)


@frozen(eq=False)
class Visit:
    """A wait, with its parity on the first visit of a stage; None if that is not certain."""

    use: Use
    parity: int | None


def visits(routine: Routine, ring: Ring) -> list[Visit]:
    """The waits at the mbarriers of a ring, each with the parity of its first visit."""
    return [Visit(use, first_parity(routine, use)) for use in ring.of(Does.WAIT)]


def first_parity(routine: Routine, use: Use) -> int | None:
    """The parity of a wait on the first visit of a stage; None if it differs between paths."""
    found = {parity for _, parity in first_phases(routine, use)}
    return found.pop() if len(found) == 1 else None


def first_phases(routine: Routine, use: Use) -> frozenset[tuple[int, int]]:
    """Stage and parity of a wait before any loop has iterated, as far as known; the parity is that of the first iteration."""
    known = _first_phases(routine)
    if use not in known:
        known[use] = _phases(routine, use)
    return known[use]


def wraps_first(routine: Routine, use: Use) -> bool:
    """Whether the stage of a wait may be reset before the first visit. The parity is then that of this visit, not of an earlier
    iteration."""
    if use.index is None or use.step.amount is None:
        return False
    paths = rounds(routine).first(use.index, settler(routine).term(use.step.amount))
    return any(stage != onward for stage, onward, _ in paths)


@fact
def _first_phases(routine: Routine) -> dict[Use, frozenset[tuple[int, int]]]:
    return {}


def _phases(routine: Routine, use: Use) -> frozenset[tuple[int, int]]:
    if use.index is None or use.step.amount is None or use.step.by_state:
        return frozenset()
    found = [_phase(use, path_) for path_ in rounds(routine).first(use.index, settler(routine).term(use.step.amount))]
    return frozenset([phase for phase in found if phase is not None])


def _phase(use: Use, path_: Firsts) -> tuple[int, int] | None:
    stage, onward, parity = path_
    size = MBARRIER_BYTES * len(use.offsets)
    if stage is None or onward is None or parity is None or (onward - stage) % size:
        return None
    return stage, (parity ^ (onward - stage) // size) & 1


def parities_by_path(routine: Routine, use: Use) -> list[tuple[int | None, list[int]]]:
    """The parity of the first execution of a wait, None if unknown, with the last instructions of the blocks on the path to it."""
    if use.index is None or use.step.amount is None or use.step.by_state:
        return []
    blocks = control_flow(routine).blocks
    found = []
    for path_, choice in rounds(routine).entries(use.index, settler(routine).term(use.step.amount)):
        phase = _phase(use, path_)
        ends = [blocks[blocks[block].predecessors[location]].end - 1 for block, location in choice.items()]
        found.append((phase[1] if phase is not None else None, ends))
    return found
