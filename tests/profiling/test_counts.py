"""Counts of kernels with as many counters as it takes to fill the lanes of a warp, and more; the GPU is the machine."""

from __future__ import annotations

import array

import pytest

import ptxkit
from ptxkit import rewriters

HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"


def branching(bits: int, loops: int) -> ptxkit.Module:
    """A kernel with so many conditions, each of which holds in some threads only, and so many loops of a few rounds."""
    parts = ["mov.u32 %r1, %tid.x;"]
    for n in range(bits):
        parts += [f"rem.u32 %r2, %r1, {n + 2};", "setp.ne.u32 %p1, %r2, 0;", f"@%p1 bra B{n};", "add.u32 %r3, %r3, 1;", f"B{n}:"]
    for n in range(loops):
        parts += ["mov.u32 %r4, 0;", f"L{n}:", "add.u32 %r4, %r4, 1;", f"setp.lt.u32 %p1, %r4, {n + 1};", f"@%p1 bra L{n};"]
    registers = ".reg .pred %p<2>;\n.reg .b32 %r<5>;\n.reg .b64 %rd<2>;"
    return ptxkit.parse(HEAD + ".visible .entry k(.param .u64 a)\n{\n" + "\n".join([registers, *parts, "ret;\n}\n"]))


def wanted(bits: int, loops: int, threads: int) -> list[int]:
    """How often each block runs, those of conditions and loops in order."""
    found = [threads]
    for n in range(bits):
        found += [len([tid for tid in range(threads) if tid % (n + 2) == 0]), threads]
    for n in range(loops):
        found += [threads * (n + 1), threads]
    return found


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("bits", "loops"), [(5, 2), (30, 1), (31, 0), (40, 18)])
@pytest.mark.parametrize("probe", ["block-counts", "block-counts:derive=no"])
def test_counts(bits: int, loops: int, probe: str) -> None:
    with rewriters.instrumented(branching(bits, loops), [probe]) as run:
        run.launch("k", array.array("i", [0]), grid=1, block=48)
        assert list(run.table("block-counts").column("count")) == wanted(bits, loops, 48)
