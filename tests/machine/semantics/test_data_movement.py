"""Loads, stores, addresses and bytes."""

from __future__ import annotations

import numpy as np
import pytest
from executing import execute
from stand_in import all_lanes

from ptxkit.machine import Machine
from ptxkit.machine.memory import SHARED, Memory


@pytest.fixture
def memory() -> Memory:
    memory = Memory()
    memory.begin(ctas=2, threads=4, cluster=2, shared=64, local=16, parameters=bytes(range(24)))
    return memory


def test_loads_and_stores(memory):
    lanes = all_lanes(memory)
    address = memory.allocate(256)
    memory.write(address, np.arange(64, dtype=np.uint32))
    where = np.uint64(address) + np.arange(8, dtype=np.uint64) * np.uint64(16)
    four = execute("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]", lanes, where)
    assert [x.tolist()[:3] for x in four] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]
    execute("st.global.v2.b64 [%rd1], {%rd2, %rd3}", lanes, where, (np.uint64(7), np.arange(8, dtype=np.uint64)))
    assert np.frombuffer(memory.read(address, 64), np.uint64).tolist() == [7, 0, 7, 1, 7, 2, 7, 3]
    wide = execute("ld.global.b128 %q1, [%rd1]", lanes, where)
    assert wide["hi"].tolist() == list(range(8))
    assert execute("ld.param.u8 %r1, [%rd1]", lanes, np.uint64(3)) == 3


def test_windows(memory):
    lanes = all_lanes(memory)
    rank = np.asarray(memory.shared_base(lanes.cta), np.uint64)
    generic = execute("cvta.shared.u64 %rd1, %rd2", lanes, rank + np.uint64(8))
    assert (generic >> np.uint64(48) == SHARED >> 48).all()
    assert execute("isspacep.shared::cta %p1, %rd1", lanes, generic).all()
    assert not execute("isspacep.global %p1, %rd1", lanes, generic).any()
    peer = execute("mapa.u64 %rd1, %rd2, %r1", lanes, generic, np.uint32(1))
    assert execute("getctarank.u64 %r1, %rd1", lanes, peer).tolist() == [1] * 8
    assert execute("isspacep.shared::cta %p1, %rd1", lanes, peer).tolist() == [False] * 4 + [True] * 4
    assert execute("isspacep.shared::cluster %p1, %rd1", lanes, peer).all()
    assert execute("cvta.to.shared.u64 %rd1, %rd2", lanes, generic).tolist() == (rank + np.uint64(8)).tolist()


@pytest.mark.parametrize(
    ("mode", "c", "expected"),
    [
        ("", 0x7531, 0x77553311),
        ("", 0x0123, 0x00112233),
        ("", 0x000F, 0x00000000),
        (".f4e", 1, 0x44332211),
        (".b4e", 1, 0x66770011),
        (".rc8", 2, 0x22222222),
        (".ecl", 2, 0x33222222),
        (".ecr", 1, 0x11111100),
        (".rc16", 1, 0x33223322),
    ],
)
def test_permuted_bytes(memory, mode, c, expected):
    found = execute(f"prmt.b32{mode} %r1, %r2, %r3, %r4", all_lanes(memory), np.uint32(0x33221100), np.uint32(0x77665544), np.uint32(c))
    assert found == expected


def test_sign_of_a_byte(memory):
    assert (
        execute("prmt.b32 %r1, %r2, %r3, %r4", all_lanes(memory), np.uint32(0x80), np.full(2, 0, np.uint32), np.uint32(0x8088)).tolist()
        == [0xFF80FFFF] * 2
    )


def test_what_multimem_gives_on_one_device(memory):
    lanes = all_lanes(memory)
    address = np.full(8, memory.allocate(64), np.uint64)
    execute("multimem.red.relaxed.gpu.global.add.u32 [%rd1], %r1", lanes, address, np.uint32(2))
    assert execute("multimem.ld_reduce.relaxed.gpu.global.add.u32 %r1, [%rd1]", lanes, address).tolist() == [16] * 8


def test_multimem_operations_in_flight_end_with_the_launch():
    text = """.version 9.3
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out) {
    .reg .b64 %d;
    .reg .b32 %r;
    ld.param.u64 %d, [out];
    mov.u32 %r, %tid.x;
    multimem.red.async.release.gpu.global.add.u32 [%d], %r;
    mul.wide.u32 %d, %r, 4;
    {
        .reg .b64 %e;
        ld.param.u64 %e, [out];
        add.u64 %d, %d, %e;
    }
    multimem.st.async.release.gpu.global.u32 [%d + 4], %r;
    ret;
}
"""
    machine = Machine("sm_100a")
    out = np.zeros(33, np.uint32)
    machine.launch(machine.load(text), "k", out, grid=1, block=32)
    assert out.tolist() == [sum(range(32)), *range(32)]
