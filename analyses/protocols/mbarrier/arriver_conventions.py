"""What all who arrive at the same mbarriers do before, but one.

Code that hands a stage of a ring on is there several times: unrolled, or once for each kind of warp. Each copy does the same before it
arrives. What one leaves out is then no habit of the program: it needs it elsewhere for the same mbarriers.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from ptxkit.analyses.events.mbarriers import Use, Where, may_be_same, uses
from ptxkit.analyses.events.steps import Does
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.protocols.mbarrier.usage import Location, usage
from ptxkit.analyses.protocols.mbarrier.usage import Use as RingUse
from ptxkit.frozen import frozen

MOST_BYTES = 1024
"""mbarriers of which no more is known than that they lie in so many bytes are not distinguished."""


@frozen
class Group:
    """Uses of mbarriers that may be the same."""

    locations: tuple[Where, ...]
    instructions: frozenset[int]

    def overlaps(self, locations: Iterable[Where]) -> bool:
        """Whether some of its mbarriers may be among these."""
        return any(may_be_same(one, other) for one in self.locations for other in locations)


def groups(found: Iterable[Use]) -> list[Group]:
    """Uses by the mbarriers that they may name, of those of which enough is known."""
    made: list[Group] = []
    for use in found:
        where = use.where
        if where is None or where.offset.length > MOST_BYTES:
            continue
        own = [group for group in made if group.overlaps((where,))]
        locations = tuple({one for group in own for one in group.locations} | {where})
        joined = Group(locations, frozenset({use.instruction}.union(*[group.instructions for group in own])))
        made = [*[group for group in made if group not in own], joined]
    return made


def locations_of(use: RingUse) -> list[Location]:
    """The mbarriers of a use, without what lies outside of where they are known to be."""
    at = use.where
    if use.is_known or at is None or at.offset.length > MOST_BYTES:
        return use.locations
    return [location for location in use.locations if at.offset.has(location.offset)]


@fact
def ring_of(routine: Routine) -> dict[Location, int]:
    """By mbarrier, the number of its ring: what one instruction goes through one after the other goes together."""
    parent: dict[Location, Location] = {}

    def find(location: Location) -> Location:
        while parent.setdefault(location, location) != location:
            location = parent[location]
        return location

    for use in usage(routine).uses:
        # one loop may initialize all that there are
        for one, other in pairwise(locations_of(use) if use.does not in (Does.INIT, Does.INVAL) else ()):
            parent[find(other)] = find(one)
        for location in use.locations:
            find(location)
    numbers: dict[Location, int] = {}
    return {location: numbers.setdefault(find(location), len(numbers)) for location in list(parent)}


@fact
def arrivals(routine: Routine) -> tuple[frozenset[int], ...]:
    """Arrivals by the mbarriers that they may name."""
    return tuple([group.instructions for group in groups([use for use in uses(routine) if use.arrives])])
