"""Kernels of `fixtures/kernels` that copy asynchronously, executed under every schedule; results as their sources say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxkit.machine import Fault, Machine, TensorMap

KERNELS = Path(__file__).parents[2] / "fixtures" / "kernels"
SCHEDULES = ["late", "early", 7]
RANDOM = np.random.default_rng(1)


def launch(stem: str, kernel: str, *arguments: object, schedule: str | int = "late", target: str = "sm_90a", **shape: object) -> None:
    machine = Machine(target)
    code = machine.load((KERNELS / f"{stem}.{target}.ptx").read_text(encoding="utf-8"))
    machine.launch(code, kernel, *arguments, schedule=schedule, **shape)


def integers(count: int) -> np.ndarray:
    return RANDOM.integers(0, 1000, count).astype(np.int32)


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestKernels:
    def test_copies_of_a_thread(self, schedule):
        source, out = integers(10240), np.zeros(512, np.int32)
        launch("cp_async", "sum_tiles", source, out, 5, grid=4, block=128, schedule=schedule)
        tiles = source.reshape(4, 5, 128, 4).sum(axis=(1, 3))
        assert (out.reshape(4, 128) == np.roll(tiles, -1, axis=1)).all()

    def test_copies_of_nothing(self, schedule):
        source, out = RANDOM.random(500, np.float32), np.ones(500, np.float32)
        launch("cp_async", "shift_left", source, out, 500, grid=4, block=128, schedule=schedule)
        assert (out == np.append(source[1:], np.float32(0))).all()

    def test_pipeline(self, schedule):
        source, out = RANDOM.random(1536, np.float32), np.zeros(256, np.float32)
        launch("cp_async", "pipelined", source, out, 6, grid=4, block=64, schedule=schedule)
        expected = np.zeros((4, 64), np.float32)
        for r in range(6):
            expected = expected * np.float32(0.5) + source.reshape(4, 6, 64)[:, r]
        assert (out.reshape(4, 64) == expected).all()

    def test_split_barrier(self, schedule):
        source, out = integers(128), np.zeros(128, np.int32)
        launch("mbarrier", "split_barrier", source, out, grid=1, block=128, schedule=schedule)
        assert (out == source * 3 + source[::-1]).all()

    def test_two_slots(self, schedule):
        source, out = integers(224), np.zeros(224, np.int32)
        launch("mbarrier", "two_slots", source, out, 7, grid=1, block=64, schedule=schedule)
        assert (out.reshape(7, 32) == source.reshape(7, 32)[:, ::-1] + np.arange(7)[:, None]).all()

    def test_copies_that_arrive(self, schedule):
        source, out = integers(128), np.zeros(128, np.int32)
        launch("mbarrier", "async_arrive", source, out, grid=1, block=32, schedule=schedule)
        assert (out.reshape(32, 4) == source.reshape(32, 4)[::-1]).all()

    def test_bulk_ring(self, schedule):
        source, out = integers(5376), np.zeros(5376, np.int32)
        launch("tma_1d", "bulk_ring", source, out, 7, grid=3, block=288, schedule=schedule)
        assert (out == source + 1).all()

    def test_bulk_reduction(self, schedule):
        source, out = integers(640), np.zeros(128, np.int32)
        launch("tma_1d", "bulk_reduce", source, out, grid=5, block=128, schedule=schedule)
        assert (out == 2 * source.reshape(5, 128).sum(axis=0)).all()

    def test_tiles(self, schedule):
        source, out = RANDOM.random((64, 96), np.float32), np.zeros((64, 96), np.float32)
        maps = [TensorMap(tensor=x, box=(32, 32)) for x in (source, out)]
        launch("tma_tensor", "scale_tiles", *maps, 3, grid=(3, 2), block=(32, 8), schedule=schedule)
        assert np.allclose(out, source * 3 + 1)

    def test_reduced_tiles(self, schedule):
        source, out = np.arange(160 * 96, dtype=np.float32).reshape(160, 96), np.zeros((32, 96), np.float32)
        maps = [TensorMap(tensor=x, box=(32, 32)) for x in (source, out)]
        launch("tma_tensor", "add_tiles", *maps, 160, grid=3, block=64, schedule=schedule)
        assert (out == source.reshape(5, 32, 96).sum(axis=0)).all()

    def test_a_tensor_map_made_by_the_kernel(self, schedule):
        source, out = RANDOM.random((80, 96), np.float32), np.zeros((80, 96), np.float32)
        scratch = [np.zeros(768, np.uint8), np.zeros(128, np.uint8)]
        launch("triton_tensor_copy", "triton_tensor_copy", source, out, 80, 96, *scratch, grid=3, block=128, shared=8200, schedule=schedule)
        assert (out == source * 2).all()


def test_atomics():
    source, out = RANDOM.integers(0, 1 << 40, 200).astype(np.uint64), np.zeros(6, np.uint64)
    launch("atomics64", "atomics_u64", source, out, 200, grid=1, block=256)
    every = [source.sum(), source.max(), np.bitwise_or.reduce(source), np.bitwise_xor.reduce(source), source.max() >> np.uint64(1)]
    assert out.tolist() == [*map(int, every), int((source & np.uint64(0xFFFF)).max())]


def test_a_fault_of_what_is_in_flight_names_who_started_it():
    """A copy completes more bytes than the counts of an mbarrier can hold, after the thread has gone on."""
    text = """
    .version 8.0
    .target sm_90a
    .address_size 64
    .visible .entry k(.param .u64 p) {
        .reg .b64 %rd<3>; .reg .b32 %r<4>;
        .shared .align 128 .b8 buffer[64];
        .shared .align 8 .b64 bar;
        ld.param.u64 %rd1, [p];
        mov.u32 %r1, buffer;
        mov.u32 %r2, bar;
        mbarrier.init.shared.b64 [%r2], 1;
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r2];
        mbarrier.inval.shared.b64 [%r2];
        ret;
    }
    """
    machine = Machine("sm_90a")
    with pytest.raises(Fault, match="no mbarrier is there"):
        machine.launch(machine.load(text), "k", np.zeros(16, np.int32), grid=1, block=1)


def test_a_tensor_map_of_another_rank():
    machine = Machine("sm_90a")
    code = machine.load((KERNELS / "tma_tensor.sm_90a.ptx").read_text(encoding="utf-8"))
    x = np.zeros((4, 4, 8), np.float32)
    maps = [TensorMap(tensor=x, box=(1, 1, 8))] * 2
    with pytest.raises(Fault, match="3 dimensions in an instruction for 2"):
        machine.launch(code, "scale_tiles", *maps, 3, grid=1, block=(32, 8))
