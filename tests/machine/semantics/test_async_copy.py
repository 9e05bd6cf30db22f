"""cp.async, bulk copies and reductions: what they move, and when."""

from __future__ import annotations

import numpy as np
import pytest
from executing import execute
from stand_in import Lanes, Stopped, all_lanes

from ptxkit.machine.asynchronous import Agents
from ptxkit.machine.memory import Memory, windows

M = np.uint64(1024)


def prepared(when: str | int = "late", ctas: int = 1, threads: int = 4, cluster: int = 1) -> tuple[Memory, Lanes, np.uint64]:
    memory = Memory()
    memory.begin(ctas=ctas, threads=threads, cluster=cluster, shared=2048, fill=0)
    address = memory.allocate(4096)
    memory.write(address, np.arange(1024, dtype=np.uint32))
    lanes = all_lanes(memory)
    lanes.state["agents"] = lanes.agents = Agents(memory, when)
    return memory, lanes, np.uint64(address)


def shared(memory: Memory, first: int, count: int, cta: int = 0) -> list[int]:
    at = cta * memory.shared_stride + first
    return memory.shared.data[at : at + 4 * count].view(np.uint32).tolist()


def step(lanes: Lanes, size: int) -> np.ndarray:
    return lanes.thread.astype(np.uint64) * np.uint64(size)


def test_a_copy_is_there_after_the_wait_and_not_before():
    memory, lanes, address = prepared()
    execute("cp.async.ca.shared.global [%r1], [%rd1], 4", lanes, step(lanes, 4), address + step(lanes, 16), 4, None, None, n=4)
    execute("cp.async.commit_group", lanes)
    execute("cp.async.ca.shared.global [%r1], [%rd1], 4", lanes, step(lanes, 4) + np.uint64(16), address, 4, None, None, n=4)
    execute("cp.async.commit_group", lanes)
    assert shared(memory, 0, 4) == [0] * 4
    execute("cp.async.wait_group 1", lanes, 1, n=1)
    assert shared(memory, 0, 4) == [0, 4, 8, 12]
    memory.write(int(address), np.array([77], np.uint32))
    execute("cp.async.wait_all", lanes)
    assert shared(memory, 16, 4) == [77] * 4


def test_groups_are_those_of_each_thread():
    memory, lanes, address = prepared()
    some = lanes.at(np.array([1, 3]))
    execute("cp.async.ca.shared.global [%r1], [%rd1], 4", lanes, step(lanes, 4), address + step(lanes, 4), 4, None, None, n=4)
    execute("cp.async.commit_group", some)
    execute("cp.async.wait_group 0", lanes, 0, n=0)
    assert shared(memory, 0, 4) == [0, 1, 0, 3]


def test_what_is_not_read_is_zero():
    memory, lanes, address = prepared("early")
    memory.shared.data[:64] = 9
    execute("cp.async.ca.shared.global [%r1], [%rd1], 16, %r2", lanes, step(lanes, 16), address + np.uint64(16),
            16, np.array([16, 0, 4, 6], np.uint32), None, n=16)  # fmt: skip
    assert shared(memory, 0, 16) == [4, 5, 6, 7, 0, 0, 0, 0, 4, 0, 0, 0, 4, 5, 0, 0]


def test_an_address_of_which_nothing_is_read_may_be_any():
    _, lanes, _ = prepared("early")
    execute("cp.async.ca.shared.global [%r1], [%rd1], 16, %r2", lanes, step(lanes, 16), np.uint64(3), 16, np.uint32(0), None, n=16)


@pytest.mark.parametrize(("noinc", "expected"), [("", 4), (".noinc", 8)])
def test_copies_arrive_at_an_mbarrier(noinc, expected):
    memory, lanes, address = prepared()
    execute("mbarrier.init.shared.b64 [%r1], %r2", lanes.at(np.array([0])), M, np.uint32(expected))
    execute("cp.async.ca.shared.global [%r1], [%rd1], 4", lanes, step(lanes, 4), address + step(lanes, 4), 4, None, None, n=4)
    execute(f"cp.async.mbarrier.arrive{noinc}.shared.b64 [%r1]", lanes, M)
    execute("mbarrier.arrive.shared.b64 _, [%r1]", lanes, M, None, None)
    assert shared(memory, 0, 4) == [0] * 4
    assert not np.any(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", lanes, M, np.uint32(0)))
    assert np.all(execute("mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0", lanes, M, np.uint32(0)))
    assert shared(memory, 0, 4) == [0, 1, 2, 3]


LOAD = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3]"


@pytest.mark.parametrize("when", ["late", "early", 3])
def test_a_bulk_copy_completes_the_phase(when):
    memory, lanes, address = prepared(when, ctas=2)
    leaders = lanes.at(np.array([0, 4]))
    execute("mbarrier.init.shared.b64 [%r1], 1", leaders, M, np.uint32(1))
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", leaders, M, np.uint32(64), None)
    execute(LOAD, leaders, np.uint64(128), address + np.array([0, 64], np.uint64), np.uint32(64), None, None, M, None, None)
    assert when != "late" or shared(memory, 128, 4) == [0] * 4
    assert execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0", lanes, M, np.uint32(0), None).all()
    assert shared(memory, 128, 16) == list(range(16))
    assert shared(memory, 128, 16, 1) == list(range(16, 32))


def test_without_the_bytes_there_is_no_completion():
    _, lanes, address = prepared()
    leader = lanes.at(np.array([0]))
    execute("mbarrier.init.shared.b64 [%r1], 1", leader, M, np.uint32(1))
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", leader, M, np.uint32(80), None)
    execute(LOAD, leader, np.uint64(128), address, np.uint32(64), None, None, M, None, None)
    assert not execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0", lanes, M, np.uint32(0), None).any()


def test_a_multicast_goes_to_the_ctas_of_its_mask():
    memory, lanes, address = prepared(ctas=4, threads=1, cluster=4)
    base = np.asarray(memory.shared_base(lanes.cta), np.uint64)
    execute("mbarrier.init.shared.b64 [%r1], 1", lanes, base + M, np.uint32(1))
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", lanes, base + M, np.uint32(32), None)
    execute(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], %r2, [%r3], %h1",
        lanes.at(np.array([1])), base[1:2] + np.uint64(64), np.array([address]), np.uint32(32),
        None, None, base[1:2] + M, np.uint16(0b1011), None,
    )  # fmt: skip
    found = execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0", lanes, base + M, np.uint32(0), None)
    assert found.tolist() == [True, True, False, True]
    assert [shared(memory, 64, 2, cta)[1] for cta in range(4)] == [1, 1, 0, 1]


def test_bulk_stores_and_their_groups():
    memory, lanes, address = prepared()
    one = lanes.at(np.array([2]))
    memory.shared.data[:32].view(np.uint32)[:] = range(100, 108)
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], %r2"
    execute(store, one, address, np.uint64(0), np.uint32(32), None, None)
    execute("cp.async.bulk.commit_group", one)
    execute("cp.async.bulk.wait_group.read 0", one, 0, n=0)
    memory.shared.data[:32] = 0
    assert np.frombuffer(memory.read(int(address), 8), np.uint32).tolist() == [0, 1]
    execute("cp.async.bulk.wait_group 0", one, 0, n=0)
    assert np.frombuffer(memory.read(int(address), 8), np.uint32).tolist() == [100, 101]


@pytest.mark.parametrize(
    ("op", "type", "expected"), [("add", "u32", [10, 12, 14, 16]), ("max", "s32", [10, 11, 12, 13]), ("xor", "b32", [10, 10, 14, 14])]
)
def test_bulk_reductions(op, type, expected):
    memory, lanes, address = prepared("early")
    memory.shared.data[:16].view(np.uint32)[:] = range(10, 14)
    reduce = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}.{type} [%rd1], [%r1], 16"
    execute(reduce, lanes.at(np.array([0])), address, np.uint64(0), np.uint32(16), None)
    assert np.frombuffer(memory.read(int(address), 16), np.uint32).tolist() == expected


def test_asynchronous_stores_in_the_cluster():
    memory, lanes, _ = prepared(ctas=2, threads=2, cluster=2)
    base = np.asarray(memory.shared_base(lanes.cta), np.uint64)
    peer = base[::-1].copy()
    execute("mbarrier.init.shared.b64 [%r1], 1", lanes.at(np.array([0, 2])), base[::2] + M, np.uint32(1))
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", lanes.at(np.array([0, 2])), base[::2] + M, np.uint32(16), None)
    execute("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3]",
            lanes, peer + step(lanes, 4), np.array([1, 2, 3, 4], np.uint32), peer + M)  # fmt: skip
    execute("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r1], %r2, [%r3]",
            lanes, peer + np.uint64(16), np.array([1, 2, 3, 4], np.uint32), peer + M)  # fmt: skip
    assert execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 0", lanes, base + M, np.uint32(0), None).all()
    generic = np.uint64(windows.SHARED)
    execute("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], %r2", lanes.at(np.array([0, 2])), base[::2] + M, np.uint32(8), None)
    execute("red.async.relaxed.cluster.mbarrier::complete_tx::bytes.max.u32 [%rd1], %r2, [%rd3]",
            lanes, generic + peer + np.uint64(20), np.array([1, 2, 3, 4], np.uint32), generic + peer + M)  # fmt: skip
    assert execute("mbarrier.try_wait.parity.shared.b64 %p1, [%r1], 1", lanes, base + M, np.uint32(1), None).all()
    assert [shared(memory, 20, 1, cta) for cta in (0, 1)] == [[4], [2]]
    assert shared(memory, 0, 2, 0) == [3, 4]
    assert shared(memory, 16, 1, 0) == [7]
    assert shared(memory, 16, 1, 1) == [3]


@pytest.mark.parametrize(
    ("to", "start", "size", "said"),
    [
        (128, 0, 40, "multiple of 16"),
        (8, 0, 16, "misaligned"),
        (128, 4090, 16, "misaligned"),
        (128, 4096 - 16, 32, "bytes"),
        (2040, 0, 16, "misaligned"),
    ],
)
def test_bad_bulk_copies(to, start, size, said):
    _, lanes, address = prepared()
    one = lanes.at(np.array([0]))
    with pytest.raises(Stopped, match=said):
        execute(LOAD, one, np.uint64(to), address + np.uint64(start), np.uint32(size), None, None, M, None, None)
