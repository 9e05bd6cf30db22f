"""Loads, stores and atomics of all state spaces."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_in import Stopped, all_lanes

from ptxkit.machine import Machine
from ptxkit.machine.memory import LOCAL, PARAM_FRAME, SHARED, Memory, cluster_address, cluster_rank
from ptxkit.machine.memory.memory import UNDEFINED
from ptxkit.machine.memory.updates import Update, folding


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


@pytest.fixture
def memory() -> Memory:
    memory = Memory()
    memory.begin(ctas=2, threads=4, shared=64, local=16, parameters=bytes(range(24)))
    return memory


def test_the_next_ctas_find_nothing_of_those_before_them(memory):
    lanes = all_lanes(memory)
    for space in (".shared", ".local"):
        memory.store(lanes, space, np.uint64(8), np.uint32(7))
    before = memory.shared
    memory.begin(ctas=2, threads=4, shared=64, local=16, parameters=b"")

    assert (memory.shared is before, memory.shared is memory.local) == (True, False)
    assert {int(byte) for buffer in (memory.shared, memory.local) for byte in buffer.data} == {UNDEFINED}


def test_what_is_written_is_read(memory):
    address = memory.allocate(64, "x")
    memory.write(address, np.arange(16, dtype=np.float32))
    lanes = all_lanes(memory)
    even = np.uint64(address) + np.arange(8, dtype=np.uint64) * np.uint64(8)
    assert memory.load(lanes, ".global", even, np.float32).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    low, high = memory.load(lanes, ".global", even, np.float32, 2)
    assert high.tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    scattered = np.uint64(address) + u64(0, 56, 8, 16, 8, 0, 4, 60)
    assert memory.load(lanes, ".global", scattered, np.float32).tolist() == [0, 14, 2, 4, 2, 0, 1, 15]
    memory.store(lanes, ".global", even, (high, low))
    assert np.frombuffer(memory.read(address, 64), np.float32).tolist() == [1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14]
    assert memory.load(lanes, ".global", np.uint64(address + 4), np.uint16).shape == ()


def test_values_that_were_loaded_do_not_change_with_memory(memory):
    address = memory.allocate(64)
    lanes = all_lanes(memory)
    where = np.uint64(address) + np.arange(8, dtype=np.uint64) * np.uint64(4)
    before = memory.load(lanes, ".global", where, np.uint32)
    memory.store(lanes, ".global", where, np.full(8, 7, np.uint32))
    assert before.tolist() == [0] * 8


def test_each_cta_has_its_shared_and_each_thread_its_local_memory(memory):
    lanes = all_lanes(memory)
    mine = np.arange(8, dtype=np.uint32)
    memory.store(lanes, ".local", np.uint64(8), mine)
    assert memory.load(lanes, ".local", np.uint64(8), np.uint32).tolist() == mine.tolist()
    memory.store(lanes, ".shared", lanes.thread.astype(np.uint64) * np.uint64(4), mine)
    reverse = (np.uint64(3) - lanes.thread.astype(np.uint64)) * np.uint64(4)
    assert memory.load(lanes, ".shared", reverse, np.uint32).tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    assert memory.load(lanes, ".shared", np.uint64(4), np.uint32).tolist() == [1] * 4 + [5] * 4
    assert memory.load(lanes, ".generic", np.uint64(SHARED + 4), np.uint32).tolist() == [1] * 4 + [5] * 4
    assert memory.load(lanes, ".param", np.uint64(PARAM_FRAME + 8), np.uint32).tolist() == mine.tolist()
    assert memory.load(lanes, ".param", np.uint64(4), np.uint8) == 4


def test_generic_addresses_of_several_spaces_at_once(memory):
    address = memory.allocate(4)
    lanes = all_lanes(memory)
    where = u64(address, SHARED + 4, LOCAL + 8, SHARED + 8, LOCAL + 12, SHARED + 4, SHARED + 8, SHARED)
    memory.store(lanes, ".generic", where, np.arange(10, 18, dtype=np.uint32))
    assert memory.load(lanes, ".generic", where, np.uint32).tolist() == list(range(10, 18))
    assert memory.load(lanes, ".shared", np.uint64(4), np.uint32).tolist() == [11] * 4 + [15] * 4


def test_addresses_in_a_cluster():
    memory = Memory()
    memory.begin(ctas=4, threads=2, cluster=2, shared=32)
    lanes = all_lanes(memory)
    own = np.asarray(memory.shared_base(lanes.cta), np.uint64)
    assert cluster_rank(own).tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    memory.store(lanes, ".shared", own + np.uint64(4), lanes.cta.astype(np.uint32))
    peer = cluster_address(own + np.uint64(4), 1 - cluster_rank(own))
    assert memory.load(lanes, ".shared::cluster", peer, np.uint32).tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    assert memory.load(lanes, ".generic", peer + np.uint64(SHARED), np.uint32).tolist() == [1, 1, 0, 0, 3, 3, 2, 2]
    with pytest.raises(Stopped, match="another CTA"):
        memory.load(lanes, ".shared", peer, np.uint32)
    with pytest.raises(Stopped, match="outside of shared memory"):
        memory.load(lanes, ".shared::cluster", np.uint64(2 << 24), np.uint32)


@pytest.mark.parametrize(
    ("space", "offset", "dtype", "said", "who"),
    [
        (".global", 64, np.uint32, "at the end of `x` \\(64 bytes", [7]),
        (".global", 2, np.uint32, "misaligned read", range(8)),
        (".global", -4, np.uint32, "4 bytes before `x`", [0]),
        (".shared", 64, np.uint32, "outside of shared memory", range(8)),
        (".local", 16, np.uint32, "each thread has 16 bytes", range(8)),
        (".param", 24, np.uint32, "parameter memory", range(8)),
        (".const", 0, np.uint32, "constant memory", range(8)),
    ],
)
def test_bad_addresses_are_faults_that_name_lanes(memory, space, offset, dtype, said, who):
    start = memory.allocate(64, "x")
    lanes = all_lanes(memory)
    address = np.uint64(max(offset, 0))
    if space == ".global":
        address = np.full(8, start + offset % 4, np.uint64)
        address[list(who)] = start + offset
    with pytest.raises(Stopped, match=said) as caught:
        memory.load(lanes, space, address, dtype)
    assert np.flatnonzero(caught.value.mask).tolist() == list(who)


def test_parameters_and_constants_are_not_written(memory):
    with pytest.raises(Stopped, match="cannot write"):
        memory.store(all_lanes(memory), ".param", np.uint64(0), np.uint32(1))


def test_freed_memory_and_the_guard_zone_are_no_memory(memory):
    address = memory.allocate(8)
    memory.allocate(8)
    memory.free(address)
    with pytest.raises(Stopped, match="outside"):
        memory.load(all_lanes(memory), ".global", np.uint64(address), np.uint32)
    with pytest.raises(ValueError, match="not allocated"):
        memory.read(address, 4)


def test_memory_of_the_process():
    memory = Memory(host=True)
    memory.begin(ctas=1, threads=4)
    data = np.arange(4, dtype=np.uint32)
    memory.register(data.ctypes.data, data.nbytes, "data")
    lanes = all_lanes(memory)
    where = np.uint64(data.ctypes.data) + u64(0, 4, 8, 12)
    memory.store(lanes, ".global", where, memory.load(lanes, ".global", where, np.uint32) + np.uint32(1))
    assert data.tolist() == [1, 2, 3, 4]
    with pytest.raises(Stopped, match="end of `data`"):
        memory.load(lanes, ".global", where + np.uint64(4), np.uint32)


def test_growing_keeps_what_is_there():
    memory = Memory()
    address = memory.allocate(16)
    memory.write(address, b"sixteen bytes!!!")
    big = memory.allocate(1 << 22)
    assert memory.read(address, 16) == b"sixteen bytes!!!"
    assert memory.read(big + (1 << 22) - 4, 4) == bytes(4)


def serial(start, index, values, step):
    cells, olds = dict(enumerate(start)), []
    for i, v in zip(index, values, strict=True):
        olds.append(cells[i])
        cells[i] = step(cells[i], v)
    return [cells[i] for i in range(len(start))], olds


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3) | st.just(0), st.integers(0, 5)), min_size=1, max_size=80), st.booleans())
def test_updates_are_those_of_some_serial_order(pairs, known):
    """Old values and results are those of lanes that come in order, at each address."""
    memory = Memory()
    memory.begin(ctas=1, threads=len(pairs))
    address = memory.allocate(64)
    memory.write(address, np.arange(16, dtype=np.uint32))
    index, values = [i for i, _ in pairs], [v for _, v in pairs]
    where = np.uint64(address) + np.array(index, np.uint64) * np.uint64(4)
    update = folding(np.add) if known else Update(np.add)
    olds = memory.update(all_lanes(memory), ".global", where, update, None, np.array(values, np.uint32))
    cells, expected = serial(range(16), index, values, lambda a, b: a + b)
    assert np.frombuffer(memory.read(address, 64), np.uint32).tolist() == cells
    assert olds.tolist() == expected


def test_updates_of_one_address_by_all():
    memory = Memory()
    memory.begin(ctas=1, threads=5000)
    address = memory.allocate(64)
    lanes = all_lanes(memory)
    olds = memory.update(lanes, ".global", np.uint64(address), folding(np.add), None, np.uint32(2))
    assert olds.tolist() == list(range(0, 10000, 2))
    hot = np.where(lanes.thread % 10 == 0, address + 4 + lanes.thread % 40 // 4 * 4, address).astype(np.uint64)
    olds = memory.update(lanes, ".global", hot, folding(np.add), None, np.uint32(1))
    assert sorted(olds[lanes.thread % 10 != 0].tolist()) == list(range(10000, 14500))


def test_a_watcher_sees_every_access(memory):
    seen = []
    memory.watch = lambda access: seen.append((access.kind, access.space, access.size, memory.owner(access.space, int(access.at[5]))))
    lanes = all_lanes(memory)
    memory.store(lanes, ".shared", np.uint64(8), lanes.thread.astype(np.uint32))
    memory.load(lanes, ".local", np.uint64(8), np.uint16, 2)
    assert seen == [("write", ".shared", 4, (1, 8)), ("read", ".local", 4, (5, 8))]


def test_what_is_trimmed_is_allocated_again_with_zeros():
    memory = Memory()
    kept = memory.allocate(100)
    for size in (1000, 1 << 24):
        start = memory.allocate(size)
        memory.write(start, b"\xff" * 1000)
        memory.write(kept, b"kept")
        memory.free(start)
        memory.trim()
        assert memory.allocate(size) == start
        assert memory.read(start, 1000) == bytes(1000)
        assert memory.read(kept, 4) == b"kept"
        memory.free(start)
        memory.trim()


def test_what_lies_behind_is_not_trimmed():
    memory = Memory()
    first, second = memory.allocate(100), memory.allocate(100)
    memory.write(second, b"second")
    memory.free(first)
    memory.trim()

    assert memory.read(second, 6) == b"second"
    assert memory.allocate(100) > second


def test_what_is_reserved_does_not_grow():
    memory = Memory()
    start = memory.allocate(4)
    memory.write(start, b"here")
    memory.reserve((1 << 28) + 8192)
    length = len(memory.globals.data)
    memory.allocate(1 << 28)

    assert len(memory.globals.data) == length
    assert memory.read(start, 4) == b"here"


def test_reserving_more_than_there_is_does_nothing():
    memory = Memory()
    memory.reserve(1 << 60)

    assert memory.read(memory.allocate(4), 4) == bytes(4)


def test_an_allocation_may_be_freed_by_the_collector_while_another_is_made() -> None:
    machine = Machine("sm_80", host_memory=True)

    class Freed:
        """Garbage that only the collector finds."""

        def __init__(self) -> None:
            self.address, self.itself = machine.new_global(16, "", 16), self

        def __del__(self) -> None:
            machine.free_global(self.address)

    before = gc.get_threshold()
    gc.set_threshold(3, 1, 1)
    try:
        for _ in range(2000):
            Freed()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert list(machine.memory.allocations) == []


def test_threads_allocate_at_the_same_time() -> None:
    machine = Machine("sm_80", host_memory=True)

    def use(_: int) -> None:
        for i in range(300):
            address = machine.new_global(64 + i, "", 16)
            machine.write(address, bytes(64))
            machine.free_global(address)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
    finally:
        sys.setswitchinterval(before)
    assert list(machine.memory.allocations) == []
