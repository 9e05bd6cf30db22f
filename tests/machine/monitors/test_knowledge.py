"""What a clock reaches, against the clocks asked one after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxkit.machine.monitors.clocks import Clock, Clocks
from ptxkit.machine.monitors.knowledge import MANY, Knowledge

THREADS, CTAS, AGENTS = 64, 3, 5


def _made(seed: int) -> Knowledge:
    """Clocks by lot: stamps of threads, warps, CTAs and agents, joined in any way."""
    lot = random.Random(seed)
    clocks = Clocks()
    knowledge = Knowledge(clocks, THREADS, 1, CTAS)
    knowledge.reset(0, THREADS * CTAS)
    agents = [(knowledge.first_agent + n) * THREADS for n in range(AGENTS)]
    for stamp in range(1, 300):
        below = tuple(lot.sample(range(1, len(clocks.all)), min(len(clocks.all) - 1, lot.randrange(3))))
        thread = lot.choice([lot.randrange(THREADS * CTAS), lot.choice(agents)])
        what = lot.randrange(4)
        clocks.add(
            Clock(
                {thread: stamp} if what == 0 else {},
                {lot.randrange(2 * CTAS): stamp} if what == 1 else {},
                {lot.randrange(CTAS): stamp} if what == 2 else {},
                below,
            )
        )
    return knowledge


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("count", [MANY - 1, 400])
def test_what_a_clock_reaches(seed: int, count: int) -> None:
    knowledge = _made(seed)
    lot = np.random.default_rng(seed)
    clock = lot.integers(0, len(knowledge.clocks.all), count)
    agents = (knowledge.first_agent + lot.integers(0, AGENTS, count)) * THREADS
    thread = np.where(lot.random(count) < 0.5, agents, lot.integers(0, THREADS * CTAS, count))
    stamp = lot.integers(1, 300, count)
    assert knowledge.know_of(clock, thread, stamp).tolist() == knowledge._know_each(clock, thread, stamp).tolist()


def test_who_becomes_resident_is_reached_too() -> None:
    knowledge = _made(0)
    knowledge.reset(0, THREADS)
    own = knowledge.clocks.add(Clock({3: 7}))
    assert knowledge.know_of(np.array([own]), np.array([3]), np.array([7])).all()
    knowledge.grow(2 * THREADS)
    other = knowledge.clocks.add(Clock({THREADS + 1: 9}, {}, {}, (own,)))
    asked = np.array([other, other, own])
    assert knowledge.know_of(asked, np.array([3, THREADS + 1, THREADS + 1]), np.array([7, 9, 9])).tolist() == [True, True, False]


def test_the_warps_and_warpgroups_of_ctas_that_are_no_multiple_of_them() -> None:
    known = Knowledge(Clocks(), 160, 1, 2)
    places = np.array([0, 127, 128, 159, 160, 287, 288, 319])
    assert known.first_of(places, 128).tolist() == [0, 0, 128, 128, 160, 160, 288, 288]
    assert [known.members(first, 128).tolist() for first in (128, 160)] == [list(range(128, 160)), list(range(160, 288))]
