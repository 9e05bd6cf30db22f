"""Executes a kernel with example launches until one proves valid, and reports what that launch shows.

A finding is believed only after it has been reproduced with other sizes and other contents: one that appears only for some of them may be
caused by the example inputs rather than by the kernel.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.analyses.dynamic.once import LOCKSTEP, Ran, Seen, is_ordered, once
from ptxkit.analyses.dynamic.reads import Reads
from ptxkit.analyses.execution.contents import COUNT, NOISE, ZEROS, Contents
from ptxkit.analyses.execution.execute import OF_LAUNCH, UNKNOWN
from ptxkit.analyses.execution.straying import Made, leaves_by_descriptor, would_be_inside
from ptxkit.analyses.framework.bindings import has_such, such
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.bits import chooses_bits
from ptxkit.analyses.inputs.cost import most_operations
from ptxkit.analyses.inputs.example import Example
from ptxkit.analyses.inputs.fitting import is_guessed
from ptxkit.analyses.inputs.launches import FEW, MANY, Sizes, divides, example, is_compared
from ptxkit.analyses.inputs.outside import Outside, outside
from ptxkit.analyses.inputs.parameters import Role, parameters
from ptxkit.analyses.inputs.shapes import (
    AXES,
    MOST_THREADS,
    Shape,
    asks_ctas,
    awaited,
    distinguished,
    distinguishes_ctas,
    elements,
    fewest,
    is_for_several_ctas,
    is_hidden,
    is_said,
    may_have_other_dimensions,
    meets_in_loops,
    needless_axes,
    needs,
    reached,
    read,
    shapes,
)
from ptxkit.analyses.inputs.single import group, suits_one_thread
from ptxkit.analyses.launch.launch import WARP, cluster_size, launch
from ptxkit.analyses.memory.accesses import accesses
from ptxkit.analyses.registers.ssa import ssa
from ptxkit.isa.binding import Bound
from ptxkit.machine.launching import shared_limit
from ptxkit.machine.monitors.addresses import OUTSIDE
from ptxkit.syntax import Address, Name

if TYPE_CHECKING:
    from ptxkit.machine import Fault
    from ptxkit.machine.findings import Finding
    from ptxkit.machine.loading import Code
    from ptxkit.machine.monitoring import Monitor

SECONDS = 60.0
"""Time limit for one kernel, all runs included, in seconds. Runs are bounded by a count of operations; this limit only matters on a busy
machine."""
LEAST = 1
"""Operation limit of a run once the budget is used up: the run ends at once."""
RUNS = 4
"""Budget for all runs of a kernel, as a multiple of the longest permitted run. No run starts once it is used up."""
ORDERS: tuple[str | int, ...] = (1, 2)
"""Schedules to try if the order of threads may matter."""
MOST_MEMORY = 1 << 28
"""Limit on the global memory that the runs of a kernel use together, in bytes."""
MOST_LAUNCHES = 12
"""Maximum number of shapes that are tried."""
GROWTH, MOST_GROWTH = 32, 1024
"""Factor by which arrays grow after a run leaves them, and the maximum over all such steps."""
MOST_CONTRASTS = 6
"""Maximum number of other shapes that are tried to confirm a finding."""
UNEVEN, UNEVEN_TOO = 7, 3
SMALL, SMALL_TOO = 5, 3
"""Numbers that some lanes fall below, for kernels that compare a scalar with part of a lane's index."""
TILES = 4
"""Elements for each thread, so that a CTA processes several tiles."""
ELEMENTS = 16
"""Elements for each thread, so that all registers that may hold one do."""
CONTRAST = Sizes(counts=2 * FEW, scale=2, differ=True, covers=True)
REST_CONTRAST = Sizes(counts=2 * FEW, scale=2, differ=True, covers=True, rest=1)
UNEVEN_CONTRAST = Sizes(counts=2 * FEW, uneven=UNEVEN_TOO, covers=True)
DRAWN = Sizes(covers=True, drawn=1), Sizes(covers=True, drawn=2), Sizes(covers=True, drawn=3)
"""Scalars with arbitrary relations to each other."""
EMPTY = Sizes(empty=True)
UPDATES = "red", "atom"
"""Mnemonics of atomic updates."""
BARRIERS = "B"
"""The family of rules about barriers of a CTA."""
TOGETHER = "CB"
"""The families of rules about what threads must execute together."""
OF_WARPS = "C"
"""The family of rules about divergence. With equal contents no thread diverges."""
AT_ENDS = "CBR"
"""The families of rules whose findings may concern only the last CTA, if not all of its threads have an element."""
OF_TENSORS = "T"
"""The family of rules about tensor memory. A kernel must free it even if there is nothing to compute."""
BY_ITSELF = frozenset(("trap", "assert"))
"""Kinds of faults with which a kernel rejects its own launch."""
WAITS = frozenset(("budget", "deadlock"))
"""Kinds of faults of threads that wait for something that the contents of memory prevent."""
OF_SHAPE = frozenset(("launch", "shared"))
"""Kinds of faults that another shape may avoid."""
RANDOM = Contents("random", 1)
UNINITIALISED = "uninitialised-memory"
"""Name of the finding about a read of memory that was never written."""
MISALIGNED = "misaligned-access"
WHOLE_ROWS = Sizes(counts=16)
"""Sizes with which rows are a multiple of 16 elements long, the usual requirement of a kernel that reads rows by vectors."""
OF_BYTES = (OUTSIDE[1], UNINITIALISED, MISALIGNED)
OF_ALIGNMENT = frozenset((MISALIGNED, "cpasync-operand"))
"""Names of findings about the bytes at an address."""
OF_INITS = frozenset(("mbarrier-use-before-init", "mbarrier-double-init"))
"""Names of findings about the initialization of mbarriers."""
OF_SHARED = frozenset(("smem-race", "implicit-warp-synchrony"))
LACKS_THREADS = "the launch reads shared memory that no thread has written: it may lack the threads of a launch by the host"
RACES = OF_SHARED | {"race-global", "dsmem-access-unsynchronised"}
"""Names of findings about two unordered accesses."""

Launched = tuple[Ran, Shape]


@attrs.frozen
class Found:
    """A finding of a run, and what it depends on.

    The questions are asked in the order `other_sizes`, `other_shapes`, `in_order`, then the rest. Once the finding fails to appear for one,
    the later ones are not asked.
    """

    finding: Finding
    example: Example
    depends: bool
    """Whether its execution or address depends on synthesized contents."""
    other_contents: bool
    """Whether it also appears with other contents."""
    other_sizes: bool | None
    """Whether it also appears with other sizes; None if no launch with other sizes could be tried."""
    other_shapes: bool | None = True
    """Whether it also appears with all other thread blocks that were tried, if the kernel does not specify its own; None if time ran out
    first."""
    few_threads: bool = True
    """Whether it appears with a single thread, if no address and no branch depends on the thread index, and with a single group of
    threads, if nothing tells groups apart."""
    is_whole: bool = False
    """Whether the size of the thread block is certain: no larger one is plausible, for a finding about uninitialized memory, or no
    smaller one, for a finding about a barrier."""
    is_checked: bool = False
    """For a load that races with updates: whether a compare-and-swap of the same word follows, which detects the change."""
    is_read: bool = True
    """For two stores to shared memory: whether any thread reads what they store."""
    in_order: bool = True
    """For a race: whether it remains one if warp collectives are taken to order memory accesses."""
    is_by_table: bool = False
    """For a race in global memory that is not a read-modify-write: whether its addresses come from synthesized contents. With other
    contents, each thread may have elements of its own."""
    contents: Contents = COUNT
    schedule: str | int = LOCKSTEP
    """Contents of memory and schedule of the run."""
    doubt: str = ""
    """Why the finding is dropped without further runs; empty if it is not."""
    first_lines: bool = False
    """Whether only the first lines of each matrix that a descriptor describes were read."""


@attrs.frozen
class Exercised:
    """Result for one kernel. `example` is the launch that was executed, or None if none was valid; `why` says what ended the last one."""

    example: Example | None
    found: tuple[Found, ...]
    why: str = ""
    is_complete: bool = False
    """Whether all threads ran to completion."""
    lines: frozenset[int] = frozenset()
    """Lines of the executed instructions that access memory or synchronize."""
    is_cut: bool = False
    """Whether the time limit ended it; a machine that is less busy might find more."""
    unjudged: frozenset[int] = frozenset()
    """Lines with findings that were dropped as doubtful. Nothing is refuted there."""


class Exercise:
    """The runs of one kernel."""

    def __init__(
        self,
        routine: Routine,
        code: Code,
        seconds: float = SECONDS,
        known: dict[Example, Ran] | None = None,
        doubt: Callable[[Finding, Example], str] = lambda finding, example: "",
    ) -> None:
        self.routine = routine
        self.doubt = doubt
        self.known = known
        """Earlier runs of the same text with the usual contents and schedule, or None; new ones are added."""
        self.code = code
        self.operations = most_operations(routine)
        self.left = RUNS * self.operations
        self.end = time.perf_counter() + seconds
        self.why = ""
        self.growth = 1
        self.shared = 0
        self.first_lines = False
        """Whether only the first lines of matrices are read, as one extends beyond shared memory or over an mbarrier."""
        self.contents = COUNT
        self.schedule: str | int = LOCKSTEP
        """Contents and schedule of the runs that decide whether a finding is believed."""
        self.lines: frozenset[int] | None = None
        """Lines of the findings that are being reproduced; races elsewhere are ignored. None: all lines matter."""
        self.ran: dict[tuple[Any, ...], Ran] = {}
        """The runs so far, except those that exceeded their budget. If a kernel has no scalars, other sizes give the same launch."""

    def run(self) -> Exercised:
        """Tries launches one after the other and judges the first valid one."""
        launched = self._first(shapes(self.routine), Sizes())
        if launched is None:
            return Exercised(None, (), self.why, is_cut=self._is_cut)
        ran, shape = launched
        found = list(self._judged(launched, Sizes(), CONTRAST))
        runs = [ran]
        # what shows where boxes of tensor maps were guessed is no finding by itself, no matter how often
        goes_on = not is_guessed(self.routine)
        for sizes, contrast, families in self._further() if goes_on and not found and ran.fault is None else ():
            # none of these families is about races
            self.lines = frozenset() if families and set(families) <= set(AT_ENDS) else None
            more = self._first((shape,), sizes)
            self.lines = None
            if more is not None:
                ran = more[0]
                runs.append(ran)
                found = [one for one in self._judged(more, sizes, contrast) if not families or _is_of_ends(one.finding, families)]
            if found:
                break
        if goes_on and not found and ran.fault is None and _scatters(ran):
            found = self._of_equal_indices(shape)
        if goes_on and not found and ran.fault is None and self._may_part(ran):
            found = self._of_noise(shape)
        is_over = ran.fault is None or ran.fault.kind in WAITS
        if goes_on and not any(map(_is_sure, found)) and is_over and hands_over(self.routine):
            found += self._in_other_orders(shape)
        sure = {id(one) for each in runs for one in each.wrong}
        unjudged = frozenset([one.diagnostic.span.line for each in runs for one in each.findings if id(one) not in sure])
        is_complete = ran.fault is None and not self.first_lines
        return Exercised(ran.example, tuple(found), self.why, is_complete, ran.lines, self._is_cut, unjudged)

    @property
    def _is_cut(self) -> bool:
        return time.perf_counter() > self.end

    def _in_other_orders(self, shape: Shape) -> list[Found]:
        """Findings under other schedules, for a kernel that inspects what other threads have written, such as flags. Flags are initially
        zero."""
        for schedule in ORDERS:
            self.contents, self.schedule = ZEROS, schedule
            launched = self._first((shape,), Sizes())
            found = list(self._judged(launched, Sizes(), CONTRAST)) if launched is not None else []
            if found:
                return found
        return []

    def _may_part(self, ran: Ran) -> bool:
        """Whether threads that must execute something together branch on synthesized contents."""
        if not needs(self.routine, "cta") and not needs(self.routine, "warp"):
            return False
        return any(isinstance(site.bound, Bound) and site.bound.form.mnemonic == "bra" for site in ran.depends)

    def _of_noise(self, shape: Shape) -> list[Found]:
        """Findings about divergence, from a run with random contents of any magnitude and sign."""
        self.contents = NOISE
        launched = self._first((shape,), Sizes())
        found = list(self._judged(launched, Sizes(), CONTRAST)) if launched is not None else []
        self.contents = COUNT
        return [attrs.evolve(one, depends=True) for one in found if one.finding.diagnostic.rule[:1] in OF_WARPS]

    def _of_equal_indices(self, shape: Shape) -> list[Found]:
        """Findings if contents make several threads update one word of shared memory, as in a histogram.

        Real inputs may never make threads store to the same word; only unsynchronized read-modify-writes are reported.
        """
        self.contents = RANDOM
        launched = self._first((shape,), Sizes())
        found = list(self._judged(launched, Sizes(), CONTRAST)) if launched is not None else []
        self.contents = COUNT
        return [one for one in found if launched is not None and _is_update(one.finding, launched[0])]

    def _further(self) -> Iterator[tuple[Sizes, Sizes, str]]:
        """Other sizes that may reveal more: a ring fails when it wraps around, and some sizes hide an out-of-bounds access."""
        if has_rounds(self.routine):
            yield Sizes(counts=MANY, rest=1), REST_CONTRAST, ""
        if is_compared(self.routine) and (needs(self.routine, "cta") or needs(self.routine, "warp")):
            yield Sizes(uneven=UNEVEN), UNEVEN_CONTRAST, AT_ENDS
            yield Sizes(small=SMALL), Sizes(counts=2 * FEW, small=SMALL_TOO), OF_WARPS
            if meets_in_loops(self.routine):
                yield Sizes(scale=TILES), CONTRAST, ""
        if allocates(self.routine):
            yield EMPTY, EMPTY, OF_TENSORS

    def _first(self, choices: tuple[Shape, ...], sizes: Sizes) -> Launched | None:
        """The first valid launch, that is, one that stays within its memory. If the kernel specifies its thread block and fails with it,
        the fault is the kernel's own."""
        wrong: list[Launched] = []
        is_always_wrong = True
        hidden: Launched | None = None
        of_warps: Launched | None = None
        waits = False
        last: tuple[int, int] | None = None
        said = choices[0].block if is_said(self.routine, choices[0].block) else None
        for shape in choices[:MOST_LAUNCHES]:
            if self._is_full:
                return None
            if said is not None and shape.block != said and math.prod(shape.block) < min(WARP, math.prod(said)):
                # a kernel written for many threads is not launched with less than a warp
                continue
            if waits and math.prod(shape.block) < distinguished(self.routine):
                # without the waiting threads, a launch says nothing about them
                continue
            ran = self._within(shape, sizes)
            fault, outside = ran.fault, ran.outside
            self.why = fault.reason if fault is not None else ""
            if fault is not None and _says_nothing(fault, ran):
                if fault.kind in OF_SHAPE or outside:
                    is_always_wrong &= fault.kind in OF_SHAPE
                    continue
                return None
            if outside == ".shared" and ran.example.shared:
                # it needs more shared memory than there is
                return None
            is_stuck = fault is not None and fault.kind == "deadlock"
            waits |= is_stuck
            if wrong and not outside and _reads_rubbish(ran) and said is not None:
                # it leaves an array with the specified block, and reads unwritten memory with a smaller one
                continue
            is_of_warps = not outside and not is_stuck and self._is_for_a_warp(ran, shape)
            of_warps = of_warps or ((ran, shape) if is_of_warps and not _reads_rubbish(ran) else None)
            if of_warps is not None and not outside and _reads_rubbish(ran):
                # a block of one warp, or another smaller one, lacks threads: the kernel is for several warps
                return of_warps
            if not outside and not is_stuck and not is_of_warps:
                if sizes != Sizes() or not self._is_hidden_by_sizes(shape):
                    return ran, shape
                hidden = hidden or (ran, shape)
                continue
            if outside == ".global":
                # the scalars are inconsistent, so nothing is known about this shape
                is_always_wrong = False
                strayed, last = last, ran.strayed_to
                if last is not None and last == strayed:
                    # the same stray access with two shapes: no other shape avoids it
                    return None
            else:
                wrong.append((ran, shape))
        if hidden is not None:
            return hidden
        # a launch with fewer threads than the kernel distinguishes is not valid
        wrong = [one for one in wrong if math.prod(one[1].block) >= fewest(self.routine)] or wrong
        # what fails with every shape is the kernel's own fault
        if not wrong or not is_always_wrong:
            return None
        if wrong[0][1].block == said and not may_have_other_dimensions(self.routine, said):
            # no other shape explains a failure with the specified block
            return wrong[0]
        least = min(wrong, key=lambda one: math.prod(one[1].block))
        is_one_cause = len(wrong) == 1 or any(all(_is_in(finding, ran) for ran, _ in wrong) for finding in least[0].wrong)
        return least if is_one_cause else None

    def _is_hidden_by_sizes(self, shape: Shape) -> bool:
        """Whether a synthesized block with several dimensions leaves an array once there are more elements. With few elements, a comparison
        may hide that this is not a block for the kernel."""
        x, y, z = shape.block
        if y * z == 1 or x == 1 or is_said(self.routine, shape.block) or not is_compared(self.routine):
            return False
        return self._within(shape, CONTRAST).outside == ".shared"

    def _is_for_a_warp(self, ran: Ran, shape: Shape) -> bool:
        """Whether warps do the same at one shared address and nothing in the kernel distinguishes warps, so that it is meant for a block of
        one warp.

        A kernel that distinguishes warps and fails to synchronize them is not excused.
        """
        x, y, z = shape.block
        if x * y * z <= WARP or fewest(self.routine) > WARP:
            return False
        for finding in ran.wrong:
            accesses = finding.witness.get("accesses", ())
            numbers = [one["thread"][0] + x * (one["thread"][1] + y * one["thread"][2]) for one in accesses if "thread" in one]
            if finding.witness.get("space") == "shared" and len(numbers) == 2 and numbers[0] != numbers[1]:
                if (numbers[0] - numbers[1]) % WARP == 0:
                    return True
        return False

    @property
    def _is_full(self) -> bool:
        """Whether the memory limit is reached. Memory that one run frees is not reused by the next."""
        return bool(self.code.machine.memory.size > MOST_MEMORY)

    def _within(self, shape: Shape, sizes: Sizes) -> Ran:
        """Runs a launch, enlarging arrays and dynamic shared memory as needed."""
        contents = self.contents
        while True:
            one = self._example(shape, sizes)
            known = self._known_outside(one, contents)
            if known is not None and self._grows(known.fault, known.made):
                self.left -= known.operations
                continue
            ran = self._once(one, contents)
            if ran.outside == ".global" and self._grows(ran.fault, ran.observer.made):
                continue
            if ran.outside == ".shared" and one.shared and one.shared < self._most_shared():
                self.shared = self._most_shared()
            elif ran.outside == ".global" and contents is not ZEROS:
                # numbers in memory may be used as indices
                contents = ZEROS
            elif not self.first_lines and (leaves_by_descriptor(ran.fault) or ran.takes_mbarriers):
                self.first_lines = True
            else:
                return ran

    def _known_outside(self, one: Example, contents: Contents) -> Outside | None:
        """The recorded end of a launch that is known to leave global memory."""
        if self.known is not None or contents is not COUNT or self.schedule != LOCKSTEP:
            return None
        known = outside(self.routine).get(one)
        return known if known is not None and known.operations <= min(self.operations, self.left) else None

    def _grows(self, fault: Fault | None, made: Made) -> bool:
        """Enlarges arrays if the run would have stayed within larger ones. Returns whether they were enlarged."""
        if self.growth >= MOST_GROWTH or not would_be_inside(fault, made, MOST_GROWTH // self.growth):
            return False
        self.growth = self.growth * GROWTH if would_be_inside(fault, made, GROWTH) else MOST_GROWTH
        return True

    def _example(self, shape: Shape, sizes: Sizes) -> Example:
        one = example(self.routine, shape, sizes)
        if self.shared:
            one = attrs.evolve(one, shared=self.shared)
        one = one.with_larger_arrays(self.growth) if self.growth > 1 else one
        return attrs.evolve(one, options=tuple(self._options(one, sizes)))

    def _options(self, one: Example, sizes: Sizes) -> Iterator[str]:
        """The options with which `ptxkit inputs` creates this example."""
        values = {
            "block": ",".join(map(str, one.block)),
            "loops": "" if sizes.counts == FEW else str(sizes.counts),
            "enlarge": "" if self.growth == 1 else str(self.growth),
            "shared": str(self.shared or ""),
            "less": str(sizes.uneven or ""),
            "small": str(sizes.small or ""),
        }
        for name, value in values.items():
            if value:
                yield from (f"--{name}", value)
        if sizes.empty:
            yield "--empty"

    def _most_shared(self) -> int:
        """The maximum dynamic shared memory of a launch, in bytes."""
        program = self.code.program(self.routine.name, False, True)
        return max(0, (shared_limit(self.code.machine.target) - program.shared_dynamic) // 1024 * 1024)

    def _once(
        self,
        one: Example,
        contents: Contents,
        *,
        by_collectives: bool = False,
        zeroed: Mapping[int, int] | None = None,
        also: Sequence[Monitor] = (),
    ) -> Ran:
        is_usual = contents is COUNT and self.schedule == LOCKSTEP and not (by_collectives or zeroed or also or self.first_lines)
        known = self.known if is_usual else None
        ran = known.get(one) if known is not None else None
        lines = self.lines if self.known is None else None
        key = one, contents, self.schedule, by_collectives, self.first_lines, tuple((zeroed or {}).items())
        for looked_at in (lines, None) if not also else ():
            if (*key, looked_at) in self.ran:
                return self.ran[*key, looked_at]
        if ran is None:
            seconds = max(0.1, self.end - time.perf_counter())
            most = max(LEAST, min(self.operations, self.left))
            ran = once(
                self.code,
                one,
                contents,
                most,
                seconds,
                schedule=self.schedule,
                by_collectives=by_collectives,
                keep=known is not None,
                zeroed=zeroed,
                also=also,
                lines=lines,
                first_lines=self.first_lines,
            )
            if known is not None and (ran.fault is None or ran.fault.kind != "budget"):
                known[one] = ran
        self.left -= ran.observer.operations
        if not also and (ran.fault is None or ran.fault.kind != "budget"):
            self.ran[*key, lines] = ran
        return ran

    def _judged(self, launched: Launched, sizes_of: Sizes, contrast: Sizes) -> Iterator[Found]:
        """Repeats a run with other contents, sizes and shapes, and yields its findings with what they depend on."""
        ran, shape = launched
        contents, schedule = self.contents, self.schedule
        if ran.findings and not ran.wrong:
            # values may be equal by coincidence
            contents = NOISE
            ran = self._once(ran.example, contents)
        if not ran.wrong:
            return
        # flags are meant to be zero initially; other data need not be
        others = (RANDOM, ZEROS) if self.contents is COUNT else (RANDOM, COUNT) if self.contents is ZEROS and ran.depends_on_data else ()
        flags = ran.observer.flags if self.contents is ZEROS else {}
        self.contents = COUNT if COUNT in others else self.contents
        lacks = self._may_lack_threads(ran)
        doubts = {id(one): self.doubt(one, ran.example) or (LACKS_THREADS if lacks and _is_race(one) else "") for one in ran.wrong}
        asked = [finding for finding in ran.wrong if not doubts[id(finding)]]
        # a race in a shared variable is confirmed by any other race in it, on any lines
        self.lines = None if any(_is_of_one_variable(one, one) for one in asked) else frozenset().union(*map(_lines, asked))
        asked = self._with_fewer_ctas(asked, shape, sizes_of)
        shows_too = self._shows_with_other_sizes(asked, launched, contrast)
        resized = [shows_too.get(id(finding)) for finding in ran.wrong]
        # each further question is asked only about the findings that remain
        left = tuple([finding for finding, shows in zip(ran.wrong, resized, strict=True) if shows])
        reshaped = self._of_other_shapes(left, shape, sizes_of)
        sure = self._in_order(reshaped or (), launched, sizes_of, contents)
        alone = self._of_few_threads(sure, shape, sizes_of)
        sites = {id(site): self.code.line(site.path) for site in ran.depends} if sure else {}
        stores = {self.code.line(site.path) for site in ran.stores} if any(map(_is_of_writes, sure)) else set()
        tables = {self.code.line(site.path) for site in ran.by_tables} if any(map(_is_global_race, sure)) else set()
        again = [self._once(ran.example, contents, zeroed=flags) for contents in others] if sites else []
        # whether two writes differ always or only for some contents
        mixed = again[:1] or ([self._once(ran.example, RANDOM, zeroed=flags)] if any(map(_is_of_writes, sure)) else [])
        chosen = [finding for finding in sure if _is_of_writes(finding) and _lines(finding) & stores]
        filled = self._of_elements_for_all(shape) if chosen else None
        mixed = [*mixed, filled] if filled is not None else mixed
        unread = self._unread(sure, ran, contents)
        is_full = self._is_full_block(sure, shape, sizes_of)
        self.lines = None
        ids = [frozenset(map(id, some)) for some in (reshaped or (), alone, sure)]
        for finding, shows in zip(ran.wrong, resized, strict=True):
            yield Found(
                finding,
                ran.example,
                self._depends(finding, stores if _is_of_writes(finding) else set(sites.values()), again),
                all(_shows_with(finding, one) for one in (*_telling(finding, again), *(mixed if _is_of_writes(finding) else ()))),
                shows,
                None if reshaped is None else id(finding) in ids[0],
                id(finding) in ids[1],
                self._is_whole(finding, is_full),
                _is_checked(finding, ran),
                not (_is_of_writes(finding) and _lines(finding) <= unread),
                id(finding) in ids[2] or not _is_race(finding),
                _is_global_race(finding) and bool(_lines(finding) & tables) and not self._is_update(finding, ran),
                contents,
                schedule,
                doubts[id(finding)],
                self.first_lines,
            )

    def _may_lack_threads(self, ran: Ran) -> bool:
        """Whether a run reads shared memory that no thread has written, with a block that the kernel does not specify: a block of the host
        may have the threads that write it, and others elsewhere."""
        block = ran.example.block
        unwritten = [one for one in ran.wrong if one.diagnostic.name == UNINITIALISED and one.witness.get("space") == "shared"]
        return not is_said(self.routine, block) and any(not may_be_whole(self.routine, one, block) for one in unwritten)

    def _depends(self, finding: Finding, lines: set[int], again: list[Ran]) -> bool:
        """Whether a finding depends on synthesized contents: because one of `lines` does, or because threads do not diverge with other
        contents."""
        if finding.diagnostic.rule[:1] in OF_WARPS and not all(_is_in(finding, one) for one in again):
            return True
        return bool(_lines(finding) & lines) and not _is_of_own_memory(finding)

    def _shows_with_other_sizes(self, asked: Sequence[Finding], launched: Launched, contrast: Sizes) -> dict[int, bool | None]:
        """For each finding of a run, whether it also appears with other sizes; None if that could not be tried.

        A finding that one run refutes is not checked by the next. Runs that are cheap and likely to refute come first.
        """
        ran, shape = launched
        if is_guessed(self.routine):
            # which phases complete depends on the boxes, and what mbarriers there are does not
            asked = [finding for finding in asked if finding.diagnostic.name in OF_INITS]
        presets = {self.code.line(site.path) for site in ran.depends_on_presets} if asked else set()

        def can_be_tried(finding: Finding) -> bool:
            if chooses_bits(self.routine) and (_is_race(finding) or finding.diagnostic.name in OF_BYTES):
                return False
            # sizes may be in variables that the host initializes
            is_preset = bool(presets) and (finding.diagnostic.name == UNINITIALISED or bool(presets & _lines(finding)))
            return not (is_preset or self._is_of_a_guessed_cluster(finding, shape))

        left = [finding for finding in asked if can_be_tried(finding)]
        shows: dict[int, bool | None] = dict.fromkeys(map(id, left), False)
        few = self._of_ones(left, shape)
        if few is not None:
            left = [one for one in left if (_is_in(one, few) if _is_between_ctas(one) else _is_as_such_in(one, few))]
        single = self._of_one_iteration(left, shape)
        if single is not None:
            left = [one for one in left if one.diagnostic.name != OUTSIDE[1] or _is_in(one, single)]
        whole = self._of_whole_rows(left, shape)
        if whole is not None:
            left = [one for one in left if one.diagnostic.name not in OF_ALIGNMENT or _is_in(one, whole)]
        has_ends = is_compared(self.routine)
        # if there are more elements than threads, the last CTA is full
        at_ends: list[Finding] = []
        for sizes in (Sizes(units=True), contrast) if divides(self.routine) else (contrast,):
            less = attrs.evolve(sizes, counts=FEW), attrs.evolve(sizes, counts=FEW, covers=False)
            # a run that times out with many iterations or elements may not have reached the finding
            for tried in less if _is_timed_out(ran) else (sizes, *less):
                other = self._first((shape,), tried) if left or at_ends else None
                if other is None or not _is_timed_out(other[0]):
                    break
            if other is None:
                return {**shows, **dict.fromkeys(map(id, [*left, *at_ends]), None)}
            at_ends += [one for one in left if has_ends and _is_of_ends(one, AT_ENDS) and not _is_in(one, other[0])]
            left = [one for one in left if _is_in(one, other[0])]
        for sizes in DRAWN:
            # relations of scalars to each other, such as equality, decide where accesses are, and those of the host may be others
            is_asked = any(map(_is_of_addresses, left)) and not self._is_usual(shape, sizes)
            drawn = self._first((shape,), sizes) if is_asked else None
            left = [one for one in left if drawn is None or not (_is_of_addresses(one) and _is_refuted_there(one, drawn[0]))]
        uneven = self._first((shape,), UNEVEN_CONTRAST) if at_ends else None
        if uneven is not None:
            left += [one for one in at_ends if _is_in(one, uneven[0])]
        return {**shows, **dict.fromkeys(map(id, left), True)}

    def _is_full_block(self, found: tuple[Finding, ...], shape: Shape, sizes: Sizes) -> bool:
        """Whether a block of twice as many threads is impossible or would leave an array. Checked only for findings about uninitialized
        memory."""
        x, y, z = shape.block
        if not any(one.diagnostic.name == UNINITIALISED for one in found):
            return False
        has_most = _has_most_threads(self.routine, shape.block)
        if not has_most and not _has_an_element_each(self.routine, shape.block):
            return False
        if any(length == 1 and f"%tid.{axis}" in read(self.routine) for axis, length in zip("xyz", shape.block, strict=True)):
            # it may have more threads along this dimension
            return False
        return has_most or self._within(attrs.evolve(shape, block=(2 * x, y, z)), sizes).outside == ".shared"

    def _is_whole(self, finding: Finding, is_full: bool) -> bool:
        """Whether no other number of threads is plausible. More threads, one of which might write the memory that was read, would leave
        an array; fewer, as a barrier expects, would be less than the kernel distinguishes."""
        if finding.diagnostic.rule[:1] == BARRIERS:
            return distinguished(self.routine) > max(awaited(self.routine), default=MOST_THREADS)
        return _is_of_own_memory(finding) or is_full

    def _with_fewer_ctas(self, found: Sequence[Finding], shape: Shape, sizes: Sizes) -> list[Finding]:
        """The findings that also appear with one CTA, or cluster, along each axis of the grid in which one does all the work; asked only
        about those between CTAs that the kernel does not tell apart."""
        axes = needless_axes(self.routine)
        equal = tuple([finding for finding in found if self._is_of_equal_ctas(finding, axes)])
        if not equal:
            return list(found)
        least = shape.cluster or (1, 1, 1)
        x, y, z = [few if axis in axes else many for axis, few, many in zip(AXES, least, shape.grid, strict=True)]
        left = self._also(equal, attrs.evolve(shape, grid=(x, y, z)), sizes)
        return [finding for finding in found if finding not in equal or finding in left]

    def _is_of_equal_ctas(self, finding: Finding, axes: frozenset[str]) -> bool:
        """Whether a finding is a race in global memory between CTAs that differ only along `axes`, at addresses that do not depend on
        these. If the kernel reads the CTA index or the grid size, both accesses must be by the same thread at the same instruction."""
        if not _is_between_ctas(finding) or (is_for_several_ctas(self.routine) and not self._is_of_own_addresses(finding)):
            return False
        one, other = finding.witness["accesses"]
        if asks_ctas(self.routine) and (one["thread"], one["line"]) != (other["thread"], other["line"]):
            return False
        return all(axis in axes for axis, at, there in zip(AXES, one["cta"], other["cta"], strict=True) if at != there)

    def _is_of_own_addresses(self, finding: Finding) -> bool:
        """Whether the addresses of both accesses are known expressions: then no memory, such as a counter that distributes work to CTAs,
        decides where they are."""
        lines = _lines(finding)
        index = self.code.index
        found = [one.address for of in reached(self.routine) for one in accesses(of) if index.span(of.where(one.instruction)).line in lines]
        return bool(found) and not any(one is None or is_hidden(one) for one in found)

    def _of_whole_rows(self, found: Sequence[Finding], shape: Shape) -> Ran | None:
        """A run in which rows are a multiple of 16 elements long, for misaligned accesses: the host may keep to such lengths. None if there
        are none, or if that changes nothing."""
        if not any(finding.diagnostic.name in OF_ALIGNMENT for finding in found) or self._is_usual(shape, WHOLE_ROWS):
            return None
        return self._within(shape, WHOLE_ROWS)

    def _is_update(self, finding: Finding, ran: Ran) -> bool:
        """Whether the accesses of a finding are at one address expression, and no load is there whose value the store does not use: then
        threads that share an address lose updates. Threads that swap elements have their own."""
        if not _is_of_one_address(finding, ran):
            return False
        lines, index = _lines(finding), self.code.index
        for of in reached(self.routine):
            found = [one for one in accesses(of) if index.span(of.where(one.instruction)).line in lines]
            loaded = [number for one in found if one.reads for number in ssa(of).definitions[one.instruction]]
            stores = [one.instruction for one in found if not one.reads]
            if loaded and stores and not ssa(of).computed_from(loaded) & {number for i in stores for number in ssa(of).uses[i]}:
                return False
        return True

    def _of_one_iteration(self, found: Sequence[Finding], shape: Shape) -> Ran | None:
        """A run with a single iteration of each loop that is bounded by a scalar, for out-of-bounds findings: a scalar may be too large
        for the array. None if that changes nothing."""
        sizes = Sizes(single=True)
        if not any(finding.diagnostic.name == OUTSIDE[1] for finding in found) or self._is_usual(shape, sizes):
            return None
        return self._within(shape, sizes)

    def _of_ones(self, found: Sequence[Finding], shape: Shape) -> Ran | None:
        """A run with all scalars 1, for findings about barriers, where a scalar may be the barrier's name or select its participants,
        and between CTAs, where it may be the index of a tile that does not exist. None if there is no such run."""
        sizes = Sizes(ones=True)
        if not any(finding.diagnostic.rule[:1] == BARRIERS or _is_between_ctas(finding) for finding in found):
            return None
        few = self._first((shape,), sizes) if not self._is_usual(shape, sizes) else None
        return few[0] if few is not None else None

    def _is_usual(self, shape: Shape, sizes: Sizes) -> bool:
        """Whether these sizes change no argument of the kernel."""
        return example(self.routine, shape, sizes) == example(self.routine, shape)

    def _of_other_shapes(self, left: tuple[Finding, ...], shape: Shape, sizes: Sizes) -> tuple[Finding, ...] | None:
        """The findings that appear with all other thread blocks that the kernel may have; None if time ran out first."""
        has_others = may_have_other_dimensions(self.routine, shape.block)
        if is_said(self.routine, shape.block) and not has_others:
            return left
        threads = math.prod(shape.block)
        least = threads if has_others else max(fewest(self.routine), 2 * WARP)
        enough = [one for one in shapes(self.routine) if one != shape and math.prod(one.block) >= least]
        if threads in elements(self.routine) or has_others:
            # an array has one element for each thread, or the kernel specifies their number
            enough = [one for one in enough if math.prod(one.block) == threads]
        others = sorted(enough, key=lambda one: math.prod(one.block))[:MOST_CONTRASTS]
        few = [_of_a_warp(shape)] if self._may_be_a_warp(shape) else []
        # small ones first, as they are cheaper; that one thread refutes a finding is asked for again below
        alone = None if needs(self.routine, "warp") else self._alone(shape)
        for other in [*([alone] if alone is not None else []), *few, *others]:
            if not left:
                break
            left = self._also(left, other, sizes)
            if time.perf_counter() > self.end or self._is_full:
                return None
        return left

    def _unread(self, found: tuple[Finding, ...], ran: Ran, contents: Contents) -> set[int]:
        """Lines of stores to shared memory that no thread reads, among those of the findings. Only for a run to completion without
        asynchronous operations."""
        stores = {line for one in found if _is_of_writes(one) and one.witness.get("space") == "shared" for line in _lines(one)}
        if not stores or ran.fault is not None or any(has_such(one, _is_in_flight) for one in reached(self.routine)):
            return set()
        reads = Reads(stores)
        again = self._once(ran.example, contents, also=(reads,))
        return set(reads.lines) - reads.read if again.fault is None else set()

    def _of_elements_for_all(self, shape: Shape) -> Ran | None:
        """A run in which each thread has all its elements and all are different, for stores that depend on contents. Threads that select
        one of several equal elements may store different results, which is harmless. None if there is no such run."""
        one = self._example(shape, Sizes(scale=ELEMENTS))
        if one == self._example(shape, Sizes()):
            return None
        ran = self._once(one, COUNT)
        return None if ran.outside or ran.fault is not None else ran

    def _may_be_a_warp(self, shape: Shape) -> bool:
        """Whether a block of one warp suffices for the kernel. Cooperating lanes may each have several elements of an array."""
        if is_said(self.routine, shape.block) or fewest(self.routine) != WARP:
            return False
        return math.prod(shape.block) not in elements(self.routine) or needs(self.routine, "warp")

    def _of_few_threads(self, found: tuple[Finding, ...], shape: Shape, sizes: Sizes) -> tuple[Finding, ...]:
        """The findings that also appear with one thread, or one group of threads, if the kernel may have no more."""
        alone = self._alone(shape)
        return self._also(found, alone, sizes) if found and alone is not None else found

    def _alone(self, shape: Shape) -> Shape | None:
        """The shape with one thread, or one group of threads, if the kernel does not specify its block and does nothing that needs more."""
        is_single = suits_one_thread(self.routine)
        count = 1 if is_single or fewest(self.routine) == 1 else group(self.routine)
        if launch(self.routine).threads is not None or not count:
            return None
        is_one = (is_single or not distinguishes_ctas(self.routine)) and cluster_size(self.routine) is None
        block = (count, 1, 1)
        return Shape(block, (1, 1, 1), None) if is_one else attrs.evolve(shape, block=block)

    def _also(self, found: tuple[Finding, ...], shape: Shape, sizes: Sizes) -> tuple[Finding, ...]:
        """The findings that a run with another shape does not refute. A shape that leaves a shared array is no launch; it refutes only
        that another shape leaves an array by the kernel's own fault, if it does so elsewhere."""
        one = self._within(shape, sizes)
        if one.outside:
            return tuple([finding for finding in found if not _leaves_shared(finding) or one.outside != ".shared" or _is_in(finding, one)])
        return tuple([finding for finding in found if not _is_refuted(finding, one)])

    def _in_order(self, found: tuple[Finding, ...], launched: Launched, sizes: Sizes, contents: Contents) -> tuple[Finding, ...]:
        """The findings that remain if warp collectives are taken to order memory accesses; also with a single warp, if the kernel can
        run with one."""
        ran, shape = launched
        if not needs(self.routine, "warp") or not any(map(_is_race, found)):
            return found
        ordered = self._once(ran.example, contents, by_collectives=True)
        left = tuple([finding for finding in found if not _is_race(finding) or _is_in(finding, ordered)])
        if not self._may_be_a_warp(shape) or not any(map(_is_race, left)):
            return left
        alone = self._once(self._example(_of_a_warp(shape), sizes), contents, by_collectives=True)
        return tuple([finding for finding in left if not _is_race(finding) or alone.outside or not _is_refuted(finding, alone)])

    def _is_of_a_guessed_cluster(self, finding: Finding, shape: Shape) -> bool:
        """Whether several CTAs of a cluster are involved, and the kernel does not specify the cluster size."""
        if shape.cluster is None or cluster_size(self.routine) is not None:
            return False
        ctas = {tuple(one["cta"]) for one in finding.witness.get("accesses", ()) if "cta" in one}
        return finding.witness.get("space") != "global" and (len(ctas) > 1 or finding.diagnostic.rule.startswith("G"))


def _is_in_flight(bound: Bound) -> bool:
    return any(memory.is_async for memory in bound.memory)


def _of_a_warp(shape: Shape) -> Shape:
    return attrs.evolve(shape, block=(WARP, 1, 1))


def _is_of_ends(finding: Finding, families: str) -> bool:
    """Whether a finding may concern only the last CTA, whose threads may not all have an element. Threads that exit before a barrier do
    not count: hardware does not wait for them, and a kernel with barriers is usually launched without a partial CTA."""
    return finding.diagnostic.rule[:1] in families and "exited" not in finding.witness


def may_be_whole(routine: Routine, finding: Finding, block: tuple[int, int, int]) -> bool:
    """Whether a larger CTA, one of whose additional threads writes the memory in question, is impossible or implausible."""
    return _is_of_own_memory(finding) or _has_most_threads(routine, block) or _has_an_element_each(routine, block)


def _has_most_threads(routine: Routine, block: tuple[int, int, int]) -> bool:
    """Whether the kernel cannot be launched with more threads."""
    return math.prod(block) >= launch(routine).most[0]


def _has_an_element_each(routine: Routine, block: tuple[int, int, int]) -> bool:
    """Whether an array has as many elements as the block has threads."""
    return math.prod(block) in elements(routine)


def hands_over(routine: Routine) -> bool:
    """Whether threads read with ordering semantics or update memory, and use the result: what they do next may depend on which thread came
    first.

    A thread that waits at a barrier continues in the same manner whichever thread arrived first.
    """

    def holds(bound: Bound) -> bool:
        return is_ordered(bound) and not bound.barrier

    return any(is_read(one, i) for one in reached(routine) for i, _ in such(one, holds))


def allocates(routine: Routine) -> bool:
    """Whether the kernel allocates tensor memory."""
    return any(has_such(one, lambda bound: "alloc" in bound.effects) for one in reached(routine))


def is_read(routine: Routine, i: int) -> bool:
    """Whether a result of the instruction is used."""
    numbering = ssa(routine)
    return any(numbering.readers[number] or number in numbering.operand_of for number in numbering.definitions[i])


def has_rounds(routine: Routine) -> bool:
    """Whether the kernel has operations in flight across iterations, and a parameter determines the number of iterations."""

    def holds(bound: Bound) -> bool:
        arrives = {barrier.action for barrier in bound.barrier} == {"arrive"}
        return bool(arrives or bound.asynchronous or bound.completes or any(memory.is_async for memory in bound.memory))

    counts = any(slot.role is Role.COUNT for one in parameters(routine) for slot in one.slots)
    return counts and any(has_such(one, holds) for one in reached(routine))


def _is_timed_out(ran: Ran) -> bool:
    """Whether a run has used up its budget."""
    return ran.fault is not None and ran.fault.kind == "budget"


def _says_nothing(fault: Fault, ran: Ran) -> bool:
    """Whether the fault that ended a run is no evidence about the kernel. A branch beyond its list of targets is, if a monitor reported
    it."""
    if fault.kind == "budget" or (fault.kind == "branch" and ran.wrong):
        return False
    return fault.kind in UNKNOWN | OF_LAUNCH | BY_ITSELF


def _is_in(finding: Finding, other: Ran) -> bool:
    """Whether another run shows a finding of the same family on the same lines or, for a race in shared memory, in the same variable: in
    an unrolled loop, other sizes make other copies of an access collide."""
    return _seen_as(finding) in other.seen_as(_seen_as) or any(_is_of_one_variable(finding, one) for one in other.wrong)


def _is_of_one_variable(one: Finding, other: Finding) -> bool:
    """Whether both findings are races of one family in the same variable of shared memory."""
    if not _is_race(one) or not _is_race(other) or one.diagnostic.rule[:1] != other.diagnostic.rule[:1]:
        return False
    names = {one.witness.get("variable"), other.witness.get("variable")}
    return one.witness.get("space") == other.witness.get("space") == "shared" and len(names) == 1 and "" not in names


def _seen_as(finding: Finding) -> Seen:
    """Key under which findings of different runs are the same: family of the rule and lines; for uninitialized memory, only the line of
    the use. An access outside of a variable is not the same as a race on its line."""
    diagnostic = finding.diagnostic
    if diagnostic.name == OUTSIDE[1]:
        return diagnostic.rule, frozenset(_lines(finding))
    lines = {diagnostic.span.line} if diagnostic.name == UNINITIALISED else _lines(finding)
    return diagnostic.rule[:1], frozenset(lines)


def _is_as_such_in(finding: Finding, other: Ran) -> bool:
    """Whether another run also shows a finding about a barrier, as a deadlock in both or in neither. True for all other findings."""
    if finding.diagnostic.rule[:1] != BARRIERS:
        return True
    ends, lines = "ends" in finding.witness, _lines(finding)
    return any(one.diagnostic.rule[:1] == BARRIERS and lines == _lines(one) and ends == ("ends" in one.witness) for one in other.wrong)


def _shows_with(finding: Finding, other: Ran) -> bool:
    """Whether a run with other contents shows the finding. For shared memory, a run that does not reach the accesses refutes nothing; for a
    deadlock, neither does one that leaves global memory, by indices in synthesized contents."""
    is_short = finding.diagnostic.name in OF_SHARED and not _lines(finding) <= other.lines
    has_left = "ends" in finding.witness and other.outside == ".global"
    return _is_in(finding, other) or is_short or has_left


def _telling(finding: Finding, again: list[Ran]) -> list[Ran]:
    """The runs with random contents and with zeros that can refute a finding.

    With zeros only, threads that compute their indices from contents may each get a word of their own, and no threads diverge. That does
    not excuse a race, or a divergence, with other contents.
    """
    is_meeting = finding.diagnostic.name in OF_SHARED and not _is_of_writes(finding)
    return again[:1] if is_meeting or finding.diagnostic.rule[:1] in OF_WARPS else again


def _is_sure(found: Found) -> bool:
    """Whether a finding is independent of everything that was synthesized."""
    return found.other_contents and bool(found.other_sizes) and bool(found.other_shapes) and not found.depends


def _is_refuted(finding: Finding, other: Ran) -> bool:
    """Whether another run reached the instructions and shows no such finding."""
    got_there = other.fault is None or (finding.diagnostic.rule[:1] in TOGETHER and _lines(finding) <= other.lines)
    is_no_launch = finding.diagnostic.name != UNINITIALISED and _reads_rubbish(other)
    return got_there and not is_no_launch and not _is_in(finding, other)


def _is_refuted_there(finding: Finding, other: Ran) -> bool:
    """Whether another run executes the instructions of a finding and does not show it."""
    return _lines(finding) <= other.lines and _is_refuted(finding, other)


def _reads_rubbish(other: Ran) -> bool:
    """Whether the run reads shared memory that no thread has written. It may lack the threads that write it."""
    return any(one.diagnostic.name == UNINITIALISED and one.witness.get("space") == "shared" for one in other.wrong)


def _lines(finding: Finding) -> set[int]:
    return {finding.diagnostic.span.line, *[related.span.line for related in finding.diagnostic.related]}


def _scatters(ran: Ran) -> bool:
    """Whether a store to shared memory depends on contents."""
    if not any(_stores_to_shared(bound) for body in ran.bodies for bound in body.forms):
        return False
    return any(_stores_to_shared(site.bound) for site in ran.depends)


def _stores_to_shared(bound: Any) -> bool:
    return isinstance(bound, Bound) and bound.form.mnemonic in ("st", *UPDATES) and bound.has(".shared")


def _is_update(finding: Finding, ran: Ran) -> bool:
    """Whether a finding is about a read-modify-write: a load and a store at the same address expression, that store alone, or an atomic
    update and another access."""
    lines = _lines(finding)
    sites = [site for body in ran.bodies for site in body.sites if id(site) in ran.observer.seen and isinstance(site.bound, Bound)]
    by_line = {ran.line_of(site): _address_of(site) for site in sites if site.bound.form.mnemonic in ("ld", "st")}
    loaded = {_address_of(site) for site in sites if site.bound.form.mnemonic == "ld"}
    named = {by_line.get(line) for line in lines}
    updates = {ran.line_of(site) for site in sites if site.bound.form.mnemonic in UPDATES}
    return finding.witness.get("space") == "shared" and (bool(lines & updates) or (len(named) == 1 and named <= loaded))


def _is_of_one_address(finding: Finding, ran: Ran) -> bool:
    """Whether all accesses of a finding use the same address expression."""
    lines = _lines(finding)
    sites = [site for body in ran.bodies for site in body.sites if isinstance(site.bound, Bound) and ran.line_of(site) in lines]
    return len(lines) > 1 and len({_address_of(site) for site in sites}) == 1


def _is_checked(finding: Finding, ran: Ran) -> bool:
    """Whether a finding is about a load and a compare-and-swap at the same address expression."""
    lines = _lines(finding)
    if not _is_race(finding) or len(lines) != 2 or not any(bound.has(".cas") for body in ran.bodies for bound in body.forms):
        return False
    sites = [site for body in ran.bodies for site in body.sites if isinstance(site.bound, Bound) and ran.line_of(site) in lines]
    does = {"cas" if site.bound.has(".cas") else site.bound.form.mnemonic for site in sites}
    return does == {"ld", "cas"} and _is_of_one_address(finding, ran)


def _address_of(site: Any) -> tuple[str, ...]:
    """The names in an address expression."""
    return tuple([node.text for address in site.instruction.find(Address) for node in address.find(Name)])


def _is_of_own_memory(finding: Finding) -> bool:
    """Whether a finding is about uninitialized local memory, which no other thread can have written."""
    return finding.diagnostic.name == UNINITIALISED and finding.witness.get("space") == "local"


def _is_race(finding: Finding) -> bool:
    """Whether a finding is a race."""
    return finding.diagnostic.name in RACES


def _is_of_addresses(finding: Finding) -> bool:
    """Whether a finding is about the address of an access, or of two."""
    return _is_race(finding) or finding.diagnostic.name in (OUTSIDE[1], MISALIGNED)


def _leaves_shared(finding: Finding) -> bool:
    """Whether a finding is about an access outside of a shared array."""
    return finding.diagnostic.name == OUTSIDE[1] and finding.witness.get("space") == "shared"


def _is_global_race(finding: Finding) -> bool:
    """Whether a finding is a race in global memory."""
    return _is_race(finding) and finding.witness.get("space") == "global"


def _is_between_ctas(finding: Finding) -> bool:
    """Whether a finding is a race in global memory between threads of two CTAs."""
    accesses = finding.witness.get("accesses", ())
    return _is_global_race(finding) and len({tuple(one["cta"]) for one in accesses}) > 1


def _is_of_writes(finding: Finding) -> bool:
    """Whether a finding is about two writes, which do not conflict if the values are equal."""
    accesses = finding.witness.get("accesses", ())
    return _is_race(finding) and len(accesses) == 2 and all(one["kind"] == "write" for one in accesses)
