"""mbarrier objects: phases, counts, states, and what is undefined."""

from __future__ import annotations

import numpy as np
import pytest
from executing import execute
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in import Lanes, Stopped, all_lanes

from ptxkit.machine.asynchronous import mbarrier as objects
from ptxkit.machine.memory import Memory, cluster_address
from ptxkit.machine.memory.updates import Update, serially

M = np.uint64(8)


def prepared(ctas: int = 1, threads: int = 4, cluster: int = 1) -> Lanes:
    memory = Memory()
    memory.begin(ctas=ctas, threads=threads, cluster=cluster, shared=64)
    return all_lanes(memory)


def one(lanes: Lanes, lane: int) -> Lanes:
    return lanes.at(np.array([lane]))


def initialised(count: int, **shape: int) -> Lanes:
    lanes = prepared(**shape)
    own = np.asarray(lanes.memory.shared_base(lanes.cta), np.uint64)
    execute("mbarrier.init.shared.b64 [%r1], %r2", lanes, own + M, np.uint32(count))
    return lanes


def test_the_last_arrival_ends_the_phase():
    lanes = initialised(4)
    for phase in range(3):
        state = execute("mbarrier.arrive.shared.b64 %rd1, [%r1]", lanes.at(np.arange(3)), M, None, None)
        parity = np.uint32(phase & 1)
        assert not np.any(execute("mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1", one(lanes, 0), M, state[:1]))
        assert not np.any(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], %r2", one(lanes, 0), M, parity))
        last = execute("mbarrier.arrive.shared.b64 %rd1, [%r1]", one(lanes, 3), M, None, None)
        assert np.all(execute("mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1", one(lanes, 0), M, last))
        assert np.all(execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2", lanes, M, parity, None))


def test_transactions_hold_the_phase():
    lanes = initialised(1)
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", one(lanes, 0), M, np.uint32(48), None)
    assert not np.any(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", one(lanes, 0), M, np.uint32(0)))
    execute("mbarrier.complete_tx.shared.b64 [%r1], %r2", one(lanes, 0), M, np.uint32(16), None)
    execute("mbarrier.complete_tx.shared.b64 [%r1], %r2", one(lanes, 0), M, np.uint32(32), None)
    assert np.all(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", one(lanes, 0), M, np.uint32(0)))


def test_transactions_may_come_before_they_are_expected():
    lanes = initialised(1)
    execute("mbarrier.complete_tx.shared.b64 [%r1], %r2", one(lanes, 0), M, np.uint32(16), None)
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", one(lanes, 0), M, np.uint32(16), None)
    assert np.all(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", one(lanes, 0), M, np.uint32(0)))


def test_dropped_arrivals_are_not_expected_again():
    lanes = initialised(2)
    execute("mbarrier.arrive_drop.shared.b64 _, [%r1]", one(lanes, 0), M, None, None)
    execute("mbarrier.arrive.shared.b64 _, [%r1]", one(lanes, 1), M, None, None)
    execute("mbarrier.arrive.shared.b64 _, [%r1]", one(lanes, 1), M, None, None)
    assert np.all(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 1", one(lanes, 1), M, np.uint32(1)))


def test_pending_count_is_that_before_the_arrival():
    lanes = initialised(10)
    state = execute("mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 3", one(lanes, 0), M, np.uint32(3))
    assert execute("mbarrier.pending_count.b64 %r1, %rd1", one(lanes, 0), state).tolist() == [10]
    with pytest.raises(Stopped, match="completes the phase"):
        execute("mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 7", one(lanes, 0), M, np.uint32(7))


def test_an_arrival_in_another_cta():
    lanes = initialised(8, ctas=2, cluster=2)
    remote = cluster_address(M, np.uint64(1))
    execute("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1]", lanes, np.full(8, remote), None, None)
    mine = lanes.at(np.arange(4, 8))
    assert np.all(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", mine, np.full(4, remote), np.uint32(0)))


@pytest.mark.parametrize(
    ("instruction", "values", "said"),
    [
        ("mbarrier.arrive.shared.b64 _, [%r1], 5", (M, np.uint32(5), None), "more arrivals"),
        ("mbarrier.arrive.shared.b64 _, [%r1]", (np.uint64(16), None, None), "no mbarrier is there"),
        ("mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], %r2", (M, np.uint32(1 << 20), None), "leaves the range"),
        ("mbarrier.init.shared.b64 [%r1], 0", (M, np.uint32(0)), "must be between 1 and"),
        ("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", (np.uint64(24), np.uint32(0)), "no mbarrier is there"),
    ],
)
def test_what_is_undefined_is_a_fault(instruction, values, said):
    with pytest.raises(Stopped, match=said):
        execute(instruction, one(initialised(4), 0), *values)


def test_an_invalidated_object_is_none():
    lanes = initialised(4)
    execute("mbarrier.inval.shared.b64 [%r1]", one(lanes, 0), M)
    with pytest.raises(Stopped, match="invalidated"):
        execute("mbarrier.arrive.shared.b64 _, [%r1]", one(lanes, 0), M, None, None)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=30), st.integers(1, 9))
def test_arrivals_at_once_are_arrivals_in_order(arrivals, expected):
    """What is done for many lanes at once gives the states that one after another would."""
    expected *= 3
    at_once, in_order = np.full(3, objects.made(expected)), np.full(3, objects.made(expected))
    index = np.array([i for i, _ in arrivals])
    count = np.array([c for _, c in arrivals])
    zero = np.int64(0)
    step_only = Update(objects.CHANGE.step)
    try:
        olds = serially(at_once, index, objects.CHANGE, (count, zero, zero), len(arrivals))
    finally:
        found = [serially(in_order, int(i), step_only, (c, zero, zero), 1)[0] for i, c in zip(index, count, strict=True)]
    if objects.wrong(np.array(found), count) is None:
        assert olds.tolist() == found
        assert at_once.tolist() == in_order.tolist()
