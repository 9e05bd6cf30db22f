"""Atomic operations of every type."""

from __future__ import annotations

import numpy as np
import pytest
from executing import execute
from stand_in import Lanes, all_lanes

from ptxkit.machine.memory import Memory
from ptxkit.machine.types import B128


def prepared(count: int, data: np.ndarray) -> tuple[Memory, Lanes, np.uint64]:
    memory = Memory()
    memory.begin(ctas=1, threads=count, shared=256)
    address = memory.allocate(256)
    memory.write(address, data)
    memory.shared.data[: data.nbytes] = np.frombuffer(data.tobytes(), np.uint8)
    return memory, all_lanes(memory), np.uint64(address)


def back(memory: Memory, address: np.uint64, dtype: object, count: int = 1) -> list:
    return np.frombuffer(memory.read(int(address), np.dtype(dtype).itemsize * count), dtype).tolist()


@pytest.mark.parametrize(
    ("op", "start", "operand", "step"),
    [
        ("atom.global.add.u32", 5, 3, lambda a, b: a + b),
        ("atom.global.inc.u32", 5, 7, lambda a, b: 0 if a >= b else a + 1),
        ("atom.global.inc.u32", 9, 7, lambda a, b: 0 if a >= b else a + 1),
        ("atom.global.dec.u32", 5, 3, lambda a, b: b if a == 0 or a > b else a - 1),
        ("atom.global.dec.u32", 2, 3, lambda a, b: b if a == 0 or a > b else a - 1),
        ("atom.global.max.u32", 5, 8, max),
        ("atom.global.exch.b32", 5, 8, lambda a, b: b),
        ("atom.global.xor.b32", 5, 8, lambda a, b: a ^ b),
        ("atom.global.inc.u32", 5, 0xFFFFFFFF, lambda a, b: 0 if a >= b else a + 1),
    ],
)
@pytest.mark.parametrize("uniform", [True, False])
def test_one_location(op, start, operand, step, uniform):
    memory, lanes, address = prepared(40, np.array([start], np.uint32))
    b = np.full(40, operand, np.uint32) if uniform else np.array([(operand + i) & 0xFFFFFFFF for i in range(40)], np.uint32)
    olds = execute(f"{op} %r1, [%rd1], %r2", lanes, np.full(40, address), b)
    value, expected = start, []
    for x in b.tolist():
        expected.append(value)
        value = step(value, x)
    assert olds.tolist() == expected
    assert back(memory, address, np.uint32) == [value]


def test_compare_and_swap():
    memory, lanes, address = prepared(8, np.array([0, 0, 3], np.uint32))
    where = address + np.array([0, 0, 0, 0, 4, 4, 8, 8], np.uint64)
    olds = execute(
        "atom.global.cas.b32 %r1, [%rd1], %r2, %r3",
        lanes, where, np.array([0, 0, 2, 1, 1, 0, 3, 3], np.uint32), np.array([1, 9, 3, 2, 7, 8, 4, 5], np.uint32),
    )  # fmt: skip
    assert olds.tolist() == [0, 1, 1, 1, 0, 0, 3, 4]
    assert back(memory, address, np.uint32, 3) == [2, 8, 4]


def test_128_bits():
    memory, lanes, address = prepared(2, np.array([1, 2], np.uint64))
    new = np.array([(5, 6), (7, 8)], B128)
    olds = execute("atom.global.exch.b128 %q1, [%rd1], %q2", lanes, np.full(2, address), new)
    assert olds.tolist() == [(1, 2), (5, 6)]
    olds = execute("atom.global.cas.b128 %q1, [%rd1], %q2, %q3", lanes, np.full(2, address), new, new[::-1].copy())
    assert olds.tolist() == [(7, 8), (7, 8)]
    assert back(memory, address, np.uint64, 2) == [5, 6]


def test_adding_floats_flushes_in_global_memory_only():
    tiny = np.array([1], np.uint32).view(np.float32)
    for space, expected in ((".global", 0), (".shared", 3)):
        memory, lanes, address = prepared(2, tiny)
        at = address if space == ".global" else np.uint64(0)
        execute(f"red{space}.add.f32 [%rd1], %f1", lanes, np.full(2, at), tiny[0])
        memory.write(int(address), memory.shared.data[:4].tobytes()) if space == ".shared" else None
        assert back(memory, address, np.uint32) == [expected]


def test_halves_and_vectors():
    memory, lanes, address = prepared(2, np.array([1, 2, 3, 4], np.float16))
    two = np.array([1.0, 0.5], np.float16).view(np.uint32)[0]
    old = execute("atom.global.add.noftz.f16x2 %r1, [%rd1], %r2", lanes, np.full(2, address), two)
    assert old.view(np.float16).tolist() == [1, 2, 2, 2.5]
    assert back(memory, address, np.float16, 4) == [3, 3, 3, 4]
    execute("red.global.v2.f16x2.max.noftz [%rd1], {%r1, %r2}", lanes, np.full(2, address), (two, np.full(2, two)))
    assert back(memory, address, np.float16, 4) == [3, 3, 3, 4]
    old = execute("atom.global.v2.f32.add {%f1, %f2}, [%rd1], {%f3, %f4}", lanes, address + np.array([64, 64], np.uint64),
                  (np.float32(1), np.array([2, 3], np.float32)))  # fmt: skip
    assert [o.tolist() for o in old] == [[0, 1], [0, 2]]
    assert back(memory, address + np.uint64(64), np.float32, 2) == [2, 5]


def test_bfloats_round_each_time():
    one, small = 0x3F80, 0x3B80
    memory, lanes, address = prepared(3, np.array([one], np.uint16))
    execute("red.global.add.noftz.bf16 [%rd1], %h1", lanes, np.full(3, address), np.uint16(small))
    assert back(memory, address, np.uint16) == [one]


def test_a_minimum_ignores_nan_and_orders_zeros():
    data = np.array([np.nan, 0.0], np.float16)
    memory, lanes, address = prepared(1, data)
    execute("red.global.v2.f16.min.noftz [%rd1], {%h1, %h2}", lanes, np.array([address]), (np.uint16(0x3C00), np.uint16(0x8000)))
    assert back(memory, address, np.uint16, 2) == [0x3C00, 0x8000]
