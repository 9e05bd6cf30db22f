"""Fences that are missing, or stand on the wrong side of a barrier (9.7.14.4, 9.7.16.7.1, 9.7.15.4)."""

from __future__ import annotations

from collections.abc import Iterator

from ptxkit.analyses.uniformity.levels import Level
from ptxkit.isa.notation import Form
from ptxkit.rewriters.repairs.candidate import CLUSTER_BARRIER, FENCE, Candidate, insertion, move
from ptxkit.rewriters.repairs.cures.groups import least
from ptxkit.rewriters.repairs.places import between
from ptxkit.rewriters.repairs.trouble import Trouble
from ptxkit.rewriters.repairs.wording import with_effect, worded

OF_PROXIES, OF_INITS, OF_WGMMA = "proxy-fence-async", "init-fence", "wgmma-fence"
OF_TENSOR_CORES = ("tcgen05-after-thread-sync", "tcgen05-before-thread-sync")
SPACES = {"shared": ".shared::cta", "global": ".global"}
MOST_PAIRS = 4
_ARRIVES, _WAITS = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """The fences that there are for what the finding accesses."""
    for effect, statement, form in _fences(trouble):
        own = trouble.such(lambda bound, effect=effect: effect in bound.effects)
        for first, last in trouble.pairs[:MOST_PAIRS]:
            places = between(trouble.routine, first, last, least(form))
            for place in places:
                for i in own:
                    if i != place.instruction:
                        yield move(trouble, i, place, FENCE)
            for place in places:
                yield insertion(trouble, place, FENCE, statement)
            if effect == OF_INITS:
                for place in between(trouble.routine, first, last, Level.CTA):
                    yield insertion(trouble, place, CLUSTER_BARRIER, statement, _ARRIVES, _WAITS)


def _fences(trouble: Trouble) -> Iterator[tuple[str, str, Form]]:
    """The effects of the fences, the statements, and their forms."""
    bounds = [bound for pair in trouble.pairs[:MOST_PAIRS] for i in pair if (bound := trouble.bound(i)) is not None]
    if any(one.proxy == "async" for bound in bounds for one in bound.memory):
        (form,) = [one for one in with_effect("fence", OF_PROXIES) if "{.ss}" in one.syntax]
        for space in trouble.spaces or ("shared",):
            yield OF_PROXIES, worded(form, {".ss": SPACES[space]} if space in SPACES else {}), form
    if any(one.action == "init" for bound in bounds for one in bound.barrier):
        form = with_effect("fence", OF_INITS)[0]
        yield OF_INITS, worded(form, {}), form
    if any(one.group == "wgmma" for bound in bounds for one in bound.asynchronous):
        form = with_effect("wgmma", OF_WGMMA)[0]
        yield OF_WGMMA, worded(form, {}), form
    if any(bound.form.mnemonic == "tcgen05" for bound in bounds):
        for effect in OF_TENSOR_CORES:
            form = with_effect("tcgen05", effect)[0]
            yield effect, worded(form, {}), form
