"""CTA barriers that only some threads use: which threads use each, how many they are, and how many they should be (9.7.14.1).

Requires that the number of every barrier in the function is known, and which threads execute each use of the barrier in question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.events.barriers import BarrierUse, barriers
from ptxkit.analyses.framework.bindings import has_matching
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.inputs import contrasting_arguments
from ptxkit.analyses.launch.launch import WARP, WARP_MASK, launch
from ptxkit.analyses.uniformity.example_runs import Choice, worlds
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.frozen import frozen


@frozen(eq=False)
class Site:
    """A use of a barrier, and the warps that execute it."""

    use: BarrierUse
    id: int
    warps: int
    """The warps as a bit set."""
    count: int | None
    """The specified thread count; None if it is not specified or unknown."""

    @property
    def threads(self) -> int:
        """The number of threads that arrive here."""
        return self.warps.bit_count() * WARP

    @property
    def only_arrives(self) -> bool:
        return not self.use.waits


@frozen(eq=False)
class Group:
    """All uses of one barrier."""

    id: int
    sites: tuple[Site, ...]
    total: int
    """Threads of the CTA, rounded up to whole warps."""

    @property
    def warps(self) -> int:
        """The warps that execute any of the uses."""
        found = 0
        for site in self.sites:
            found |= site.warps
        return found

    @property
    def threads(self) -> int:
        return self.warps.bit_count() * WARP

    @property
    def arrivals(self) -> int:
        """The number of threads that may arrive before the barrier is complete."""
        return arrivals([(site.warps, site.use.waits) for site in self.sites])


def arrivals(uses: Iterable[tuple[int, bool]]) -> int:
    """How many threads may arrive before a barrier is complete, given the warps of each use and whether they wait there: a warp counts at
    each use at which it does not wait, and at one of the others."""
    waiting = threads = 0
    for warps, waits in uses:
        threads += 0 if waits else warps.bit_count() * WARP
        waiting |= warps if waits else 0
    return threads + waiting.bit_count() * WARP


@fact
def named_barriers(routine: Routine) -> tuple[Group, ...]:
    """The barriers of a kernel by number, if everything is known; empty if some barrier number is unknown, or if there is a call."""
    total = launch(routine).count
    if not routine.function.header.is_entry or total is None:
        return ()
    flow = control_flow(routine)
    uses = barriers(routine).cta
    calls = has_matching(routine, lambda bound: bound.flow == "call")
    if not uses or calls or any(not _numbers(use) for use in uses):
        return ()
    groups: dict[int, list[Site] | None] = {}
    for use in uses:
        ids = _numbers(use)
        warps = warps_of(routine, use) if flow.block_of[use.instruction] in flow.reachable else None
        for id_ in ids:
            if len(ids) > 1 or warps is None or (use.is_counted and (use.count is None or use.count.constant is None)):
                groups[id_] = None
            elif (sites := groups.setdefault(id_, [])) is not None:
                sites.append(Site(use, id_, warps, use.threads))
    size = -(-total // WARP) * WARP
    return tuple([Group(id_, tuple(sites), size) for id_, sites in sorted(groups.items()) if sites])


def _numbers(use: BarrierUse) -> tuple[int, ...]:
    """The possible numbers of the barrier; empty if they are unknown or too many."""
    if use.id is None:
        return ()
    least, most = use.id.bounds
    return tuple(range(least, most + 1)) if most - least < 16 else ()


def warps_of(routine: Routine, use: BarrierUse) -> int | None:
    """The warps that execute a use; None if that is uncertain, or if only part of a warp does."""
    found: int | None = None
    for number in contrasting_arguments():
        runs = worlds(routine).of(Choice(Level.CTA, number)).execution(use.instruction)
        warps = 0
        for warp, start in enumerate(range(0, len(runs), WARP)):
            own = WARP_MASK << start & runs.everyone
            sure = runs.sure & own
            if runs.may & own != sure or sure not in (0, own):
                return None
            warps |= bool(sure) << warp
        if found is not None and found != warps:
            return None
        found = warps
    return found


@frozen(eq=False)
class Miscount:
    """A use of a barrier with a thread count that cannot be right."""

    site: Site
    why: str
    others: tuple[Site, ...]


def miscounts(group: Group) -> Iterator[Miscount]:
    """Uses of a barrier with a higher or lower thread count than the number of threads that use it."""
    counted = [site for site in group.sites if site.count]
    waiting = [site for site in group.sites if site.use.waits]
    if not waiting:
        return
    said = False
    for site in counted:
        if site.use.threads is not None and site.use.threads % WARP:
            # partial warps are reported by another rule
            return
        others = tuple([other for other in group.sites if other is not site])
        assert site.count is not None
        if site.count > max(group.total, group.arrivals):
            said = True
            yield Miscount(site, f"barrier {group.id} waits for {site.count} threads, but the CTA has {group.total}", ())
        elif site.count > group.arrivals and site.warps:
            said = True
            yield Miscount(site, f"barrier {group.id} expects {site.count} threads, but only {group.threads} ever reach it", others)
        elif site.threads > site.count:
            said = True
            yield Miscount(site, f"barrier {group.id} expects {site.count} threads, but {site.threads} reach it here alone", others)
    if said:
        return
    yield from _of_roles(group, counted)


def _of_roles(group: Group, counted: list[Site]) -> Iterator[Miscount]:
    """Uses by disjoint warps that only together match their thread counts."""
    arriving = [site for site in counted if site.only_arrives and site.warps]
    waiting = [site for site in counted if site.use.waits and site.warps]
    if not arriving or not waiting or len(counted) != len(group.sites):
        return
    if len({site.warps for site in arriving}) != 1 or len({site.warps for site in waiting}) != 1 or arriving[0].warps & waiting[0].warps:
        return
    together = arriving[0].threads + waiting[0].threads
    wrong = [site for site in counted if site.count != together]
    if not wrong:
        return
    shown = wrong if len(wrong) < len(counted) else [waiting[0]]
    for site in shown:
        others = tuple([other for other in counted if other is not site])
        counts = f"{arriving[0].threads} arrive and {waiting[0].threads} wait"
        yield Miscount(site, f"barrier {group.id} expects {site.count} threads, but {counts}", others)


def disagreements(routine: Routine) -> Iterator[tuple[BarrierUse, BarrierUse]]:
    """Uses of a barrier whose thread count differs from that of most of its uses, each paired with one of these.

    A barrier may be reused for other threads after all threads have synchronized elsewhere, so uses separated by a barrier of the whole CTA
    may differ.
    """
    uses: dict[int, list[BarrierUse]] = {}
    for use in barriers(routine).cta:
        if use.number is not None and use.threads is not None:
            uses.setdefault(use.number, []).append(use)
    meetings = [use.instruction for use in barriers(routine).cta if use.waits and not use.is_counted]
    for own in uses.values():
        counts = Counter([use.threads for use in own])
        usual = next(use for use in own if use.threads == counts.most_common(1)[0][0])
        for use in own:
            if use.threads != usual.threads and not any(_stands_between(routine, meeting, use, usual) for meeting in meetings):
                yield use, usual


def _stands_between(routine: Routine, meeting: int, one: BarrierUse, other: BarrierUse) -> bool:
    """Whether an instruction precedes exactly one of two uses on all paths."""
    tree, block_of = dominators(routine).tree, control_flow(routine).block_of

    def comes_before(use: BarrierUse) -> bool:
        start, at = block_of[meeting], block_of[use.instruction]
        return meeting < use.instruction if start == at else tree.dominates(start, at)

    return comes_before(one) != comes_before(other)


def mixtures(group: Group) -> Iterator[tuple[Site, Site]]:
    """A use with a reduction and one without, by other warps at the same barrier in the same phase: each alone has too few threads."""
    for site in group.sites:
        if not site.use.reduces or not site.warps:
            continue
        for other in group.sites:
            alone = site.threads < (site.count or group.total) and other.threads < (other.count or group.total)
            if not other.use.reduces and other.warps and not other.warps & site.warps and alone:
                yield site, other
                break
