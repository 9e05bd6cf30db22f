"""The F, W, T and P rules on many ways of writing the same mistakes, and on correct code that looks like them."""

from __future__ import annotations

import pytest
from marked import expected, findings, found, kernels

import ptxkit
from ptxkit.analyses import lint
from ptxkit.analyses.framework.rule import select

KERNELS = kernels("matrix_rules.txt")
FAMILIES = "FWTP"


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_found(name: str) -> None:
    assert found(KERNELS[name], FAMILIES) == expected(KERNELS[name])


def test_a_weak_wait_has_its_steps() -> None:
    (one,) = findings(KERNELS["wgmma, the wait weakened in a loop"], FAMILIES)

    assert [related.message for related in one.related] == ["started here", "committed here", "this leaves up to 1 group in flight"]


def test_what_is_so_on_some_ways_is_an_error_only_if_it_is_shown() -> None:
    module = ptxkit.parse(KERNELS["wgmma, the wait only in a branch"])
    (argued,) = [one for one in lint(module, select(["W"]), run=False) if one.severity != "info"]
    (one,) = findings(KERNELS["wgmma, the wait only in a branch"], FAMILIES)

    assert argued.severity == "warning"
    assert one.severity == "error"
    assert one.witness
    assert "there are paths on which this does not happen" in one.notes


def test_a_lane_is_named() -> None:
    (one,) = findings(KERNELS["an address for each lane"], FAMILIES)

    assert "lane 1 passes an address of the matrix that differs from that of lane 0" in one.message
    assert "the address must be the same for the whole warp; that of thread 1 is 32 more than that of thread 0" in one.notes


def test_an_address_that_only_gpus_bear_is_a_warning() -> None:
    text = next(iter(KERNELS.values())).partition("wmma.load")[0]
    load = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r6,%r7,%r8,%r9,%r10,%r11,%r12,%r13}, [tile+AT], 16;\nret;\n}\n"
    text += ".shared .align 32 .b8 tile[1024];\n"
    rule = select(["F005"])

    severities = {at: [one.severity for one in lint(ptxkit.parse(text + load.replace("AT", str(at))), rule)] for at in (8, 16, 32)}

    assert severities == {8: ["error"], 16: ["warning"], 32: []}


def test_rows_padded_as_cuda_permits_are_a_note() -> None:
    text = next(iter(KERNELS.values())).partition("wmma.load")[0]
    load = "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r6,%r7,%r8,%r9,%r10,%r11,%r12,%r13}, [smem], STRIDE;\nret;\n}\n"
    rule = select(["F005"])

    severities = {
        stride: [one.severity for one in lint(ptxkit.parse(text + load.replace("STRIDE", str(stride))), rule)] for stride in (20, 24, 32)
    }

    assert severities == {20: ["error"], 24: ["info"], 32: []}
