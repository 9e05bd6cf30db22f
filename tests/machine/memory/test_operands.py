"""A place, which is a register and an offset, is the address that they are the sum of."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sampling import examples
from stand_in import Stopped, all_lanes

from ptxkit.machine.memory import Memory
from ptxkit.machine.memory.operands import SplitAddress


def outcome(memory: Memory, *what: Any) -> Any:
    try:
        found = memory.load(all_lanes(memory), *what)
    except Stopped as stopped:
        return str(stopped)
    return [x.tolist() for x in (found if isinstance(found, tuple) else (found,))]


@examples(150)
@given(st.data())
def test_loads_through_a_place(data: Any) -> None:
    ctas, threads = data.draw(st.sampled_from([1, 2])), 4
    memory = Memory()
    memory.begin(ctas=ctas, threads=threads, shared=64, cluster=data.draw(st.sampled_from([1, ctas])))
    address = memory.allocate(64)
    memory.write(address, np.arange(64, dtype=np.uint8))
    memory.shared.data[:] = np.arange(len(memory.shared.data)) % 251
    space = data.draw(st.sampled_from([".global", ".shared"]))
    kind = np.dtype(data.draw(st.sampled_from([np.uint8, np.uint16, np.float32, np.int64])))
    width = data.draw(st.sampled_from([1, 2, 4] if kind.itemsize < 8 else [1, 2]))
    step = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    registers = [
        np.array(data.draw(st.lists(st.integers(-1, 5), min_size=ctas * threads, max_size=ctas * threads)), np.int64) * step
        for _ in range(2)
    ]
    held = np.dtype(data.draw(st.sampled_from([np.int32, np.uint32]) if space == ".shared" else st.sampled_from([np.int64, np.uint64])))
    registers = [(r + (address if space == ".global" else 0)).astype(held) for r in registers]
    for which, offset in data.draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=6)):
        place = SplitAddress((registers[which], offset * step))
        assert outcome(memory, space, place, kind, width) == outcome(memory, space, place.address, kind, width)


def test_what_was_found_out_ends_with_the_layout() -> None:
    memory = Memory()
    register = np.array([4, 0, 8, 4], np.uint32)
    for shared in (64, 8):
        memory.begin(ctas=1, threads=4, shared=shared)
        memory.shared.data.view(np.uint32)[:3] = [1, 2, 3]
        assert outcome(memory, ".shared", SplitAddress((register, 0)), np.dtype(np.uint32)) == (
            [[2, 1, 3, 2]] if shared == 64 else outcome(memory, ".shared", register.astype(np.uint64), np.dtype(np.uint32))
        )
