"""What instructions do to queues and barriers."""

from __future__ import annotations

import pytest
from sample import kernel

from ptxkit.analyses.events.effects import Action, Effect, Reach, Sync, effects, syncs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cp.async.ca.shared.global [%r1], [%d1], 16;", Effect("cp.async", Action.OPEN)),
        ("cp.async.commit_group;", Effect("cp.async", Action.COMMIT)),
        ("cp.async.wait_group 2;", Effect("cp.async", Action.WAIT, 2)),
        # also what was not committed
        ("cp.async.wait_all;", Effect("cp.async", Action.WAIT, 0, takes_open=True)),
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];", Effect("cp.async", Action.SIGNAL, signals=True)),
        ("cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 64;", Effect("bulk", Action.OPEN)),
        ("cp.async.bulk.commit_group;", Effect("bulk", Action.COMMIT)),
        # the sources have been read, no more
        ("cp.async.bulk.wait_group.read 1;", Effect("bulk", Action.WAIT, 1, reading=True)),
        ("wgmma.commit_group.sync.aligned;", Effect("wgmma", Action.COMMIT)),
        ("wgmma.wait_group.sync.aligned 0;", Effect("wgmma", Action.WAIT, 0)),
    ],
)
def test_queues(text: str, expected: Effect) -> None:
    assert effects(kernel(f"{text}\nret;")) == {0: (expected,)}


def test_the_other_instructions_have_none() -> None:
    routine = kernel("mov.u32 %r1, 1;\nld.shared.u32 %r2, [%r1];\nbar.sync 0;\ncp.async.commit_group;\nret;")

    assert list(effects(routine)) == [3]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bar.sync 0;", Sync(Reach.CTA, True, True, 0)),
        ("barrier.cta.arrive 1, 64;", Sync(Reach.CTA, True, False, 0)),
        ("barrier.cluster.arrive;", Sync(Reach.CLUSTER, True, False, -1)),
        ("barrier.cluster.wait;", Sync(Reach.CLUSTER, False, True, -1)),
        ("bar.warp.sync -1;", Sync(Reach.WARP, True, True, -1)),
        ("mbarrier.arrive.shared.b64 %d1, [%r1];", Sync(Reach.MBARRIER, True, False, 1)),
        ("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;", Sync(Reach.MBARRIER, False, True, 1)),
    ],
)
def test_barriers(text: str, expected: Sync) -> None:
    assert syncs(kernel(f"{text}\nret;")) == {0: expected}


@pytest.mark.parametrize("text", ["mbarrier.init.shared.b64 [%r1], 1;", "mbarrier.inval.shared.b64 [%r1];", "ld.shared.u32 %r1, [%r2];"])
def test_neither_arrival_nor_wait(text: str) -> None:
    assert syncs(kernel(f"{text}\nret;")) == {}
