"""Boxes of tensor maps, inferred from runs of the kernel where the text does not determine their size.

A copy transfers as many bytes as the box of its map (9.7.9.25.5), and a phase of an mbarrier completes when all expect-tx bytes have
arrived (9.7.14.15.5). The phases of a run are therefore equations in the sizes of the boxes. If an equation has several unknowns, no box
extends into the next stage or beyond the destination of the next copy: the boxes fill that room if the sum matches, and otherwise they
are powers of two. Where several choices match, launches with other sizes have others, so that what shows with one only is not believed.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from ptxkit.analyses.execution.available import is_available
from ptxkit.analyses.execution.contents import COUNT, ZEROS, Contents
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.inputs.arguments import Sizes, made
from ptxkit.analyses.inputs.boxes import GATHERED, LEAST, Fit, is_argued_guess, loaded_maps, stage_strides
from ptxkit.analyses.inputs.cost import least_operations, most_operations
from ptxkit.analyses.inputs.example import Example, Map, MapName, made_maps
from ptxkit.analyses.inputs.outside import Outside, outside
from ptxkit.analyses.inputs.parameters import are_many, belong_together
from ptxkit.analyses.inputs.shapes import Shape, shapes
from ptxkit.frozen import frozen
from ptxkit.isa.types import types

if TYPE_CHECKING:
    from ptxkit.analyses.execution.transfers import Phase, Transfers
    from ptxkit.machine.loading import Code

ROUNDS = 4
"""Maximum number of runs. The boxes found in one run let the next proceed further."""
POWERS = tuple([LEAST << n for n in range(14)])
"""Sizes of boxes in bytes that are powers of two, up to what shared memory holds."""
FIRST, LAST = 0, -1
"""Choices among several boxes that match."""
FEW = 4
"""Boxes of powers of two are looked for in equations of at most this many unknowns."""
GROWTH = 32
"""Factor by which arrays grow if a run leaves them."""
SECONDS = 20.0
"""Time limit for one run in seconds. Runs are bounded by a count of operations; this limit only matters on a busy machine."""


@frozen
class Fits:
    """The boxes that were found. `is_sure`: there are none but these and the `others`, which differ where the phases leave a choice, and no
    phase of any mbarrier contradicts them."""

    boxes: Mapping[MapName, Fit]
    others: Mapping[MapName, Fit]
    is_sure: bool


@fact
def fits(routine: Routine) -> Fits:
    """The boxes of a kernel's tensor maps whose size does not follow from the text."""
    if not is_argued_guess(routine):
        return Fits({}, {}, True)
    choices = shapes(routine)
    if not routine.executes or not is_available() or not choices:
        return Fits({}, {}, False)
    # import the machine, and NumPy with it, only to execute something
    from ptxkit.analyses.execution.loading import module_code

    code = module_code(routine)
    return _fitted(routine, code, choices[0]) if code is not None else Fits({}, {}, False)


def is_guessed(routine: Routine) -> bool:
    """Whether the size of some box had to be guessed."""
    return not fits(routine).is_sure


def _fitted(routine: Routine, code: Code, shape: Shape) -> Fits:
    found: dict[MapName, Fit] = {}
    others: dict[MapName, Fit] = {}
    rooms_count = not (are_many(routine) or belong_together(routine))
    is_sure = False
    contents = COUNT
    growth = 1
    one = made(routine, shape, Sizes(), found)
    for _ in range(ROUNDS):
        ran = _run(routine, one, code, contents)
        boxes, by_room = _solved(ran, FIRST)
        others, _ = _solved(ran, LAST)
        is_sure = ran.is_balanced(boxes) and ran.is_balanced(others) and (rooms_count or not by_room)
        found = {**found, **boxes}
        if is_sure and not ran.has_left and _are_all_found(one, found):
            # the phases of this run have boxes for all maps, and add up: another run finds no others
            break
        fitted = made(routine, shape, Sizes(), found).with_larger_arrays(growth)
        if fitted != one:
            one = fitted
        elif ran.has_left and growth == 1:
            growth = GROWTH
            one = one.with_larger_arrays(growth)
        elif ran.has_left and contents is COUNT:
            contents = ZEROS
        else:
            break
    # a map with which no phase is counted, as of a store, has a box that was synthesized
    return Fits(found, {**found, **others}, is_sure and _are_all_found(one, found))


def _are_all_found(one: Example, found: Mapping[MapName, Fit]) -> bool:
    """Whether the box of each tensor map of a launch was found, and there is one."""
    return bool(found) and all(map_ is None or map_.name in found for _, argument in one.arguments for map_ in made_maps(argument))


@frozen(eq=False)
class _Ran:
    """What a run showed. `has_left`: it accessed global memory out of bounds."""

    phases: tuple[Phase, ...]
    sizes: Mapping[MapName, int]
    """Size of a box in bytes."""
    rooms: Mapping[MapName, int]
    """Least distance in bytes from a destination of a box to the destination of the next copy, or to the next stage."""
    gathered: frozenset[MapName]
    names: Mapping[int, MapName]
    has_left: bool

    def equations(self) -> Equations:
        """The equations of all phases, the most frequent first."""
        said = Counter([(self._boxes(one), one.expected - one.others) for one in self.phases if one.boxes and one.expected])
        return [one for one, _ in said.most_common()]

    def _boxes(self, phase: Phase) -> frozenset[tuple[MapName, int]]:
        return frozenset([(self.names[tensor], count) for tensor, count in phase.boxes.items() if tensor in self.names])

    def is_balanced(self, boxes: Mapping[MapName, Fit]) -> bool:
        """Whether all boxes are known, and phases in which the same boxes arrive receive exactly the expect-tx bytes at least once.

        If others of them expect another number, no boxes fit all: that is a mistake of the kernel, and not of who chose the boxes.
        """
        fitting: dict[frozenset[tuple[MapName, int]], bool] = {}
        for one in self.phases:
            parts = self._boxes(one)
            if len(parts) < len(one.boxes) or any(name not in boxes for name, _ in parts):
                return False
            if parts:
                is_exact = sum([count * boxes[name].bytes for name, count in parts]) + one.others == one.expected
                fitting[parts] = fitting.get(parts, False) or is_exact
        return all(fitting.values())


def _run(routine: Routine, one: Example, code: Code, contents: Contents) -> _Ran:
    """Runs a launch and records what mbarriers expect and what arrives."""
    from ptxkit.analyses.execution.findings import fault_space
    from ptxkit.analyses.execution.transfers import Transfers
    from ptxkit.machine import Budget, Fault
    from ptxkit.machine.launching import shared_limit
    from ptxkit.machine.matrices.accuracy import rough_products

    machine, watch = code.machine, Transfers(least_operations(routine))
    ranges: list[tuple[int, int]] = []
    loaded = loaded_maps(routine)
    has_left = False
    shared = shared_limit(machine.target) - code.program(one.kernel, False, True).shared_dynamic if one.shared else 0
    code.reset()
    try:
        machine.memory.reserve(one.memory)
        arguments = [argument.make(machine, contents, n + 1, ranges) for n, (_, argument) in enumerate(one.arguments)]
        starts = {map_.name: start for start, map_ in _described(one, ranges).items()}
        watch.asked = frozenset([starts[name] for name in loaded]) if loaded <= starts.keys() else frozenset()
        with rough_products():
            machine.launch(
                code,
                one.kernel,
                *arguments,
                grid=one.grid,
                block=one.block,
                cluster=one.cluster,
                shared=shared // 1024 * 1024,
                budget=Budget(seconds=SECONDS, operations=most_operations(routine)),
                monitors=(watch,),
            )
    except Fault as error:
        has_left = fault_space(error) == ".global"
        if has_left and contents is COUNT:
            launch = attrs.evolve(one, shared=shared // 1024 * 1024)
            outside(routine)[launch] = Outside(error.detached(), tuple(ranges), watch.operations)
    finally:
        for start, _ in ranges:
            machine.free_global(start)
        machine.memory.trim()
        code.reset()
    return _seen(one, watch, ranges, has_left, stage_strides(routine))


def _seen(one: Example, watch: Transfers, ranges: list[tuple[int, int]], has_left: bool, strides: Mapping[MapName, int]) -> _Ran:
    described = _described(one, ranges)
    names = {start: map_.name for start, map_ in described.items()}
    sizes, gathered = {}, set()
    for tensor, size in watch.sizes.items():
        if tensor in described:
            map_ = described[tensor]
            sizes[map_.name] = size
            row = map_.box[-1] * types()[map_.type].bytes
            if len(map_.box) == 2 and size == GATHERED * row != row * map_.box[0]:
                gathered.add(map_.name)
    return _Ran(
        tuple([phase for own in watch.phases.values() for phase in own]),
        sizes,
        _rooms(watch.targets, names, strides),
        frozenset(gathered),
        names,
        has_left,
    )


def _described(one: Example, ranges: list[tuple[int, int]]) -> dict[int, Map]:
    """The tensor maps of a launch, by the address of the tensor."""
    maps = [map_ for _, argument in one.arguments for map_ in made_maps(argument)]
    return {start: map_ for (start, _), map_ in zip(ranges, maps, strict=False) if map_ is not None}


def _rooms(targets: Mapping[int, Iterable[int]], names: Mapping[int, MapName], strides: Mapping[MapName, int]) -> dict[MapName, int]:
    """For each map, the least distance in bytes from a destination of its boxes to the destination of the next copy, or to the next
    stage."""
    everything = sorted({at for own in targets.values() for at in own})
    after = dict(itertools.pairwise(everything))
    found: dict[MapName, list[int]] = {}
    for tensor, own in targets.items():
        if tensor in names:
            name = names[tensor]
            found[name] = [after[at] - at for at in own if at in after] + [strides[one] for one in (name,) if one in strides]
    return {name: min(own) for name, own in found.items() if own}


def _solved(ran: _Ran, choice: int) -> tuple[dict[MapName, Fit], bool]:
    """The box sizes that solve the equations of a run, and whether a distance to the next copy was needed to decide any."""
    found: dict[MapName, int] = {}
    by_room = False
    equations = ran.equations()
    while len(found) < len(ran.sizes):
        new = _next(equations, found)
        if not new:
            new = _of_rooms(equations, found, ran.rooms, choice)
            by_room |= bool(new)
        if not new:
            break
        found.update(new)
    return {name: Fit(size, name in ran.gathered) for name, size in found.items()}, by_room


Equations = Iterable[tuple[frozenset[tuple[MapName, int]], int]]
"""Equations: which boxes arrive how often, and the sum of their bytes."""


def _next(equations: Equations, found: Mapping[MapName, int]) -> dict[MapName, int]:
    """Solves an equation with a single unknown."""
    for parts, expected in equations:
        unknown, rest = _unknown(parts, expected, found)
        for name, count in unknown.items() if len(unknown) == 1 else ():
            if rest > 0 and rest % (count * LEAST) == 0:
                return {name: rest // count}
    return {}


def _unknown(parts: frozenset[tuple[MapName, int]], expected: int, found: Mapping[MapName, int]) -> tuple[dict[MapName, int], int]:
    """The unknown boxes of an equation, and the bytes that remain for them."""
    unknown = {name: count for name, count in sorted(parts) if name not in found}
    return unknown, expected - sum([n * found[one] for one, n in parts if one in found])


def _of_rooms(equations: Equations, found: Mapping[MapName, int], rooms: Mapping[MapName, int], choice: int) -> dict[MapName, int]:
    """The unknown boxes of an equation, none larger than the distance to the next copy: as large as that, or powers of two, if these add
    up; of several such the first or the last."""
    for parts, expected in equations:
        unknown, rest = _unknown(parts, expected, found)
        if not unknown or any(name not in rooms for name in unknown):
            continue
        if sum([count * rooms[name] for name, count in unknown.items()]) == rest:
            return {name: rooms[name] for name in unknown}
        powers = [[size for size in POWERS if size <= rooms[name]] for name in unknown]
        counts = tuple(unknown.values())
        fitting = [one for one in itertools.product(*powers) if sum(map(operator.mul, counts, one)) == rest] if len(unknown) <= FEW else []
        if fitting:
            return dict(zip(unknown, fitting[choice], strict=True))
    return {}
