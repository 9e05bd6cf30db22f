"""What all but one of the arrivals at the same mbarriers do beforehand.

Code that releases a stage of a ring occurs several times: unrolled, or once for each warp role. Each copy does the same before it arrives.
If one copy omits something that the others do for the same mbarriers, it deviates from an observed convention.
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
"""mbarriers whose address is only known to lie in a larger range of bytes than this are not distinguished."""


@frozen
class Group:
    """Uses that may refer to the same mbarriers."""

    locations: tuple[Where, ...]
    instructions: frozenset[int]

    def overlaps(self, locations: Iterable[Where]) -> bool:
        """Whether some of its mbarriers may be among these."""
        return any(may_be_same(one, other) for one in self.locations for other in locations)


def groups(found: Iterable[Use]) -> list[Group]:
    """Groups uses by the mbarriers that they may refer to, if enough is known of these."""
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
    """The mbarriers of a use, without those outside its known range."""
    at = use.where
    if use.is_known or at is None or at.offset.length > MOST_BYTES:
        return use.locations
    return [location for location in use.locations if at.offset.has(location.offset)]


@fact
def ring_of(routine: Routine) -> dict[Location, int]:
    """The ring of each mbarrier, as a number: mbarriers that one instruction iterates over belong together."""
    parent: dict[Location, Location] = {}

    def find(location: Location) -> Location:
        while parent.setdefault(location, location) != location:
            location = parent[location]
        return location

    for use in usage(routine).uses:
        # one loop may initialize all mbarriers
        for one, other in pairwise(locations_of(use) if use.does not in (Does.INIT, Does.INVAL) else ()):
            parent[find(other)] = find(one)
        for location in use.locations:
            find(location)
    numbers: dict[Location, int] = {}
    return {location: numbers.setdefault(find(location), len(numbers)) for location in list(parent)}


@fact
def arrivals(routine: Routine) -> tuple[frozenset[int], ...]:
    """Arrivals grouped by the mbarriers that they may refer to."""
    return tuple([group.instructions for group in groups([use for use in uses(routine) if use.arrives])])
