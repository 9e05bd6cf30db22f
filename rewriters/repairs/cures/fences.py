"""Fences that are missing or on the wrong side of a barrier (9.7.14.4, 9.7.16.7.1, 9.7.15.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.analyses.uniformity.levels import Level
from ptxkit.isa.binding import Bound
from ptxkit.isa.forms import Form
from ptxkit.rewriters.repairs.candidate import CLUSTER_BARRIER, FENCE, Candidate, insertion, move
from ptxkit.rewriters.repairs.cures.groups import least
from ptxkit.rewriters.repairs.points import Point, synchronizes
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import with_effect, worded

OF_PROXIES, OF_INITS, OF_WGMMA = "proxy-fence-async", "init-fence", "wgmma-fence"
OF_TENSOR_CORES = ("tcgen05-after-thread-sync", "tcgen05-before-thread-sync")
Pairs = list[tuple[int, int]]
SPACES = {"shared": ".shared::cta", "global": ".global"}
FAMILIES = "PMWTG"
"""Rules about what a fence orders."""
_ARRIVES, _WAITS = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """The fences that apply to the accesses of the finding."""
    if trouble.family not in FAMILIES:
        return
    if trouble.family == "W" and not trouble.pairs:
        statement = worded(with_effect("wgmma", OF_WGMMA)[0], {})
        for i in [i for i in trouble.instructions if (bound := trouble.bound(i)) is not None and _starts_wgmma(bound)]:
            yield insertion(trouble, Point(i), FENCE, statement)
    for effect, statement, form, pairs in _fences(trouble):
        # a fence between the accesses, on the wrong side of a barrier; other fences order other accesses
        own = [i for i in _with(trouble, effect) if _is_between(trouble, i, pairs)]
        points = trouble.common(least(form), synchronizes, pairs)
        if effect == OF_PROXIES and not _is_async_at(trouble, pairs[0][0]):
            # a thread fences its own writes before it signals other threads (8.6)
            points.sort(key=lambda point: _is_after_barrier(trouble, point, pairs))
        for point in points if not trouble.is_unsynchronized else ():
            for i in own:
                if i != point.instruction:
                    yield move(trouble, i, point, FENCE)
        for point in points if not trouble.is_unsynchronized else ():
            yield insertion(trouble, point, FENCE, statement)
        if effect == OF_INITS:
            for point in trouble.common(Level.CTA, synchronizes, pairs):
                yield insertion(trouble, point, CLUSTER_BARRIER, statement, _ARRIVES, _WAITS)


def _is_between(trouble: Trouble, i: int, pairs: Pairs) -> bool:
    return any(comes_to(trouble.routine, first, i) and comes_to(trouble.routine, i, last) for first, last in pairs)


def _is_after_barrier(trouble: Trouble, point: Point, pairs: Pairs) -> bool:
    """Whether threads synchronize between the first access and a point."""
    meets = trouble.matching(lambda bound: any(one.action == "wait" for one in bound.barrier))
    first, at = pairs[0][0], point.instruction
    return any(comes_to(trouble.routine, first, i) and comes_to(trouble.routine, i, at) for i in meets if i != at)


def _is_async_at(trouble: Trouble, i: int) -> bool:
    bound = trouble.bound(i)
    return bound is not None and _is_async(bound)


def _with(trouble: Trouble, effect: str) -> list[int]:
    return trouble.matching(lambda bound: effect in bound.effects)


def _fences(trouble: Trouble) -> Iterator[tuple[str, str, Form, Pairs]]:
    """The effects of the fences, their statements and forms, and the accesses between which they may be missing."""

    def pairs_with(holds: Callable[[Bound, Bound], bool]) -> Pairs:
        found = []
        for pair in trouble.pairs:
            first, last = map(trouble.bound, pair)
            if first is not None and last is not None and holds(first, last):
                found.append(pair)
        return found

    crossing = pairs_with(lambda first, last: _is_async(first) != _is_async(last)) if trouble.family in "PT" else []
    if crossing:
        (form,) = [one for one in with_effect("fence", OF_PROXIES) if "{.ss}" in one.syntax]
        for space in trouble.spaces or ("shared",):
            yield OF_PROXIES, worded(form, {".ss": SPACES[space]} if space in SPACES else {}), form, crossing
    initial = pairs_with(lambda first, last: any(one.action == "init" for one in first.barrier))
    if initial:
        form = with_effect("fence", OF_INITS)[0]
        yield OF_INITS, worded(form, {}), form, initial
    starting = pairs_with(lambda first, last: _starts_wgmma(last))
    if starting:
        form = with_effect("wgmma", OF_WGMMA)[0]
        yield OF_WGMMA, worded(form, {}), form, starting
    of_tensor_cores = pairs_with(lambda first, last: "tcgen05" in (first.form.mnemonic, last.form.mnemonic))
    if of_tensor_cores and trouble.family == "T":
        for effect in OF_TENSOR_CORES:
            form = with_effect("tcgen05", effect)[0]
            yield effect, worded(form, {}), form, of_tensor_cores


def _starts_wgmma(bound: Bound) -> bool:
    return any((one.group, one.action) == ("wgmma", "open") for one in bound.asynchronous)


def _is_async(bound: Bound) -> bool:
    return any(one.proxy == "async" for one in bound.memory)
