"""Counters: textbook cases of sectors, banks and divergence, and kernels whose counts probes have, too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxkit.machine import Machine
from ptxkit.machine.monitors.counters import Counters, bank_passes, sectors
from ptxkit.rewriters.profiling.description import read
from ptxkit.syntax import parse

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "fixtures" / "kernels"
sys.path.insert(0, str(ROOT / "benchmarks"))

import counters_against_probes  # noqa: E402

LANE = np.arange(32)
ONE = np.zeros(32, np.int64)


@pytest.mark.parametrize(
    ("at", "wanted"),
    [
        pytest.param(LANE * 4, 4, id="consecutive words"),
        pytest.param(LANE * 4 + 4, 5, id="consecutive words, one further"),
        pytest.param(LANE * 32, 32, id="a sector each"),
        pytest.param(LANE * 0 + 64, 1, id="one word for all"),
        pytest.param(LANE * 8, 8, id="every other word"),
    ],
)
def test_sectors(at: Any, wanted: int) -> None:
    assert sectors(ONE, at) == wanted


def test_warps_do_not_share_sectors() -> None:
    assert sectors(np.repeat([0, 1], 32), np.zeros(64, np.int64)) == 2


@pytest.mark.parametrize(
    ("at", "size", "wanted"),
    [
        pytest.param(LANE * 4, 4, (1, 0), id="a bank each"),
        pytest.param(LANE * 0, 4, (1, 0), id="one word for all"),
        pytest.param(LANE * 8, 4, (2, 1), id="a stride of two words"),
        pytest.param(LANE * 128, 4, (32, 31), id="one bank for all"),
        pytest.param(LANE * 132, 4, (1, 0), id="a row and a word: padded"),
        pytest.param(LANE, 1, (1, 0), id="bytes of the same words"),
        pytest.param(LANE * 8, 8, (2, 0), id="8 bytes: two halves"),
        pytest.param(LANE * 16, 16, (4, 0), id="16 bytes: four quarters"),
        pytest.param(LANE * 0, 16, (2, 0), id="16 bytes, the same for all: two quarters go together"),
        pytest.param(LANE // 2 * 8, 8, (1, 0), id="8 bytes, in pairs: the halves go together"),
        pytest.param(LANE * 128, 16, (32, 28), id="16 bytes, one group of banks in each quarter"),
    ],
)
def test_banks(at: Any, size: int, wanted: tuple[int, int]) -> None:
    assert bank_passes(ONE, LANE, at, size) == wanted


PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %q;
.shared .align 8 .b8 s[8192];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
and.b32 %r2, %r1, 1;
setp.eq.u32 %q, %r2, 0;
@%q bra EVEN;
add.u32 %r1, %r1, 0;
EVEN:
mov.u32 %r3, s;
shl.b32 %r4, %r1, 7;
add.u32 %r4, %r3, %r4;
st.shared.u32 [%r4], %r1;
bar.sync 0;
mul.wide.u32 %rd2, %r1, 32;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r1;
ret;
}
"""


def counted(block: int = 64, grid: int = 1) -> dict[str, Any]:
    machine, counters = Machine("sm_80"), Counters()
    machine.launch(machine.load(parse(PTX)), "k", np.zeros(8 * block, np.uint32), grid=grid, block=block, monitors=(counters,))
    return counters.tables


def test_instructions_are_those_of_the_launch() -> None:
    tables = counted()

    assert [(row["line"], row["instructions"], row["warps"], row["threads"]) for row in tables["blocks"]] == [
        (8, 5, 2, 64),
        (13, 1, 2, 32),
        (15, 4, 2, 64),
        (19, 1, 2, 64),
        (20, 4, 2, 64),
    ]
    assert sum(row["threads"] for row in tables["lines"]) == sum(row["threads"] for row in tables["opcodes"]) == 14 * 64 + 32


def test_a_branch_that_parts_a_warp_diverges() -> None:
    (branch,) = [row for row in counted()["blocks"] if row["branches"]]

    assert (branch["branches"], branch["divergent"]) == (2, 2)


def test_memory_by_instruction_and_by_space() -> None:
    tables = counted()
    rows = {row["space"]: row for row in tables["memory"]}

    shared, in_global = rows["shared"], rows["global"]
    assert (shared["requests"], shared["threads"], shared["passes"], shared["conflicts"]) == (2, 64, 64, 62)
    assert (in_global["requests"], in_global["sectors"], in_global["bytes"]) == (2, 64, 256)
    assert {row["space"]: row["bytes"] for row in tables["bytes"]} == {"param": 512, "shared": 256, "global": 256}


def test_waits_at_barriers() -> None:
    assert [(row["line"], row["warps"], row["threads"]) for row in counted()["waits"]] == [(19, 2, 64)]


def test_a_branch_of_which_both_sides_are_computed_is_counted_as_it_is() -> None:
    tables = counted()

    assert next(row["threads"] for row in tables["lines"] if row["line"] == 13) == 32


@pytest.mark.parametrize("name", ["compact", "cp_async"])
def test_counts_are_those_of_probes(name: str) -> None:
    path = KERNELS / f"{name}.sm_90a.ptx"
    module = parse(path.read_text(), str(path))
    kernels = {kernel.name for kernel in module.kernels}
    found = [
        one
        for launch in read(str(KERNELS / "launch.toml"))
        if launch.kernel in kernels and launch.is_for(str(path))
        for one in counters_against_probes.compared(module, launch, "sm_90a")
    ]

    assert len(found) > 50
    assert [one for one in found if one[1] != one[2]] == []
