"""Idioms that no rule was made for: correct kernels of `fixtures/idioms`, and the same with one mistake each."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from sampling import ALL

import ptxkit
from ptxkit.analyses import lint
from ptxkit.diagnostics import Diagnostic, Severity

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "idioms"
SLOW = ("aggregation", "barrier_objects", "bulk_rings", "mended", "odd_tiles", "persistent", "roles", "split_k", "stages")
"""Those that are linted with `PTXKIT_TEST_ALL=1` only."""
WRONG = re.compile(r"oversights(?!.*_mended)")
CORRECT = sorted(
    path.name
    for path in FOLDER.glob("*.ptx")
    if not path.name.startswith("mistakes") and not WRONG.match(path.name) and (ALL or not path.name.startswith(SLOW))
)
SECONDS = 600.0
"""So long the kernels of a module may take: what is found must not depend on what else the computer does."""
MISTAKES = {
    "lookback_no_fence": "G006",
    "persistent_no_barrier": "S003",
    "compact_no_barrier": "S003",
    "named_count": "S003",
    "stencil3d": "S003",
    "histogram_not_zeroed": "R008",
    "reduce": "S003",
    "plain_increment": "G006",
    "sum_of_ctas": "G006",
    "shift": "G006",
    "barrier_in_branch": "C001",
    "last_block_no_fence": "G006",
    "vector_align": "S001",
    "shuffle_after_return": "C006",
    "double_buffer": "S003",
    "lock_no_fence": "G006",
    "called": "S009",
}
"""By kernel, the rule that reports it. `transpose_oob` is missed: its block may be smaller than the most that it says."""


OVERSIGHTS = {
    "oversights.sm_80.ptx": {
        "align_padded_rows": "S001",
        "exch_warp_transpose": "S009",
        "exch_bucket": "S009",
        "bitset_or": "S009",
        "gridstride_shfl": "C005",
        "local_partly": "R008",
        "local_heap": "R008",
        "func_race": "S003",
        "cpasync_wait_weak": "A003",
        "cpasync_tail_commit": "A003",
        "cudabarrier_count": "M005",
        "named_count": "B003",
        "named_same_id": "B003",
        "named_prodcons": "B003",
        "transpose_tiles": "S003",
        "hist_plain_inc": "S003",
        "scan_blelloch": "S003",
        "stencil_time": "S003",
        "flag_cta_scope": "G006",
        "spinlock_plain_unlock": "G006",
    },
    "oversights_async.sm_90a.ptx": {
        "cudabar_tx": "M006",
        "remote_signal_exit": "G004",
        "store_double_wait1": "A011",
        "elect_every_warp": "M005",
        "ring_empty_phase": "M008",
        "dsmem_push_wait": "G005",
        "ring_missing_release": "M009",
    },
    "oversights_clusters.sm_90a.ptx": {
        "multicast_expected_by_one": "M007",
        "wait_at_the_peers": "M014",
        "copies_arrive_once": "M005",
        "matrix_rows_overlap": "S009",
        "two_stores_one_expected": "M007",
        "peer_reads_the_next_round": "G005",
        "named_barrier_without_the_store": "S003",
        "ring_phase_by_count": "M019",
    },
    "oversights_lanes.sm_90a.ptx": {"ticket": "G006", "fetch": "M002", "layout": "S009", "twice": "S009", "blocksum": "M005"},
    "oversights_shapes.sm_80.ptx": {
        "collatzVote": "C005",
        "tinyMma": "C008",
        "feeder": "B003",
        "hist": "S003",
        "ldgOwn": "S007",
        "transposeT": "S003",
        "hist16": "S003",
        "twoDim": "S002",
        "padRead": "R008",
        "edgeTile": "C001",
    },
    "oversights_paths.sm_80.ptx": {
        "normalize": "C001",
        "row_chunks": "C001",
        "all_positive": "C001",
        "drain": "S003",
        "rank_list": "S003",
        "dedupe": "S009",
        "top_degree": "S003",
        "row_max": "C006",
        "aggregate": "C007",
        "quads": "C005",
    },
    "oversights_pipelines.sm_90a.ptx": {"relax": "M005", "pad_rows": "A007", "tileop": "S002"},
    "oversights_reads.sm_80.ptx": {"oddEven": "R008", "ldgOthers": "S007", "discardEarly": "R008", "rowMaximum": "C006"},
    "oversights_rings.sm_90a.ptx": {"perWarpEmpty": "M005", "mcast": "M006", "mcRing": "M018", "cntBlock": "M005"},
    "oversights_stages.sm_100a.ptx": {"earlyOut": "T001", "gemmTail": "T005", "plainEmpty": "T005"},
    "oversights_tensor.sm_100a.ptx": {"tc_ring_plain_arrive": "T005", "tc_lane_quarter": "T007", "tc_past_columns": "T002"},
}
"""By file and kernel, the rule that reports it."""


@cache
def found(name: str) -> tuple[Diagnostic, ...]:
    path = FOLDER / name
    return tuple([one for one in lint(ptxkit.parse(path.read_text(), str(path)), budget=SECONDS) if one.severity is not Severity.INFO])


@pytest.mark.parametrize("name", CORRECT)
def test_correct_kernels_have_no_finding(name: str) -> None:
    assert [one.message for one in found(name)] == []


@pytest.mark.parametrize(("kernel", "rule"), MISTAKES.items(), ids=list(MISTAKES))
def test_mistakes_are_found(kernel: str, rule: str) -> None:
    assert rule in [one.rule for one in found("mistakes.sm_80.ptx") if one.function == kernel]


@pytest.mark.parametrize("name", OVERSIGHTS)
def test_oversights_are_found(name: str) -> None:
    rules = {(one.function, one.rule) for one in found(name)}
    assert {kernel for kernel, rule in OVERSIGHTS[name].items() if (kernel, rule) not in rules} == set()
