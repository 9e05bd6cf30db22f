"""Instrumented kernels run from Python; the GPU is the machine, which ends a launch that touches what was not allocated."""

from __future__ import annotations

import array
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import ptxkit
from ptxkit import rewriters
from ptxkit.rewriters.manifest import Table
from ptxkit.rewriters.probing import Instrumented, instrument
from ptxkit.rewriters.profiling.device import Device, DeviceError
from ptxkit.rewriters.profiling.launch import Raw
from ptxkit.rewriters.running import Run

ROOT = Path(__file__).resolve().parents[2]
SCALE = ptxkit.parse((ROOT / "fixtures" / "profiling" / "scale.ptx").read_text())
GRID, BLOCK, N = 3, 50, 140

on_both = pytest.mark.usefixtures("device")
emulated = pytest.mark.usefixtures("driver")
"""What a GPU might not notice."""


def launched(run: Run, **options: Any) -> tuple[array.array[float], tuple[Table, ...]]:
    x, y = array.array("f", range(N)), array.array("f", [0.0] * (N + 1))
    tables = run.launch("scale", x, y, N, 8.0, grid=GRID, block=BLOCK, **options)
    return y, tables


def expected() -> list[float]:
    y = [0.0] * (N + 1)
    for i in range(N):
        if i % BLOCK < 7:
            y[i + 1] = i * 8.0 / 2 ** (i % 4)
    return y


@on_both
def test_arrays_come_back_and_tables_are_exact() -> None:
    with rewriters.instrumented(SCALE, ["block-counts"]) as run:
        y, tables = launched(run)
        assert list(y) == expected()
        assert run.table("block-counts").column("count") == [150, 140, 350, 210, 140]
        again = launched(run)[1]
        assert again == tables == run.tables  # counts are of one launch
        with pytest.raises(KeyError):
            run.table("other")


@emulated
def test_frames() -> None:
    pandas = pytest.importorskip("pandas")
    with rewriters.instrumented(SCALE, ["block-counts"]) as run:
        launched(run)
        frame = run.frame("block-counts")
        assert isinstance(frame, pandas.DataFrame)
        assert list(frame["count"]) == [150, 140, 350, 210, 140]
        assert frame.attrs["units"] == {"count": "threads"}


@emulated
def test_arguments_that_are_not_the_kernels() -> None:
    x = array.array("f", range(4))
    with rewriters.instrumented(SCALE, ["block-counts"]) as run:
        for arguments, error, words in (
            ((x, x, 1), TypeError, "scale has 4 parameters, 3 arguments are given"),
            ((x, x, 1.5, 1), TypeError, "not a whole number"),
            ((x, x, 1 << 40, 1), ValueError, "does not fit the parameter n"),
            ((x, x, x, 1), TypeError, "the parameter n has 4 bytes, the argument 8"),
            ((x, object(), 1, 1), TypeError, "cannot be given a object"),
            ((memoryview(x)[::2], x, 1, 1), TypeError, "not contiguous"),
            ((x, x, Raw(b"abc"), 1), TypeError, "the parameter n has 4 bytes, the argument 3"),
        ):
            with pytest.raises(error, match=re.escape(words)):
                run.launch("scale", *arguments, grid=1, block=1)
        with pytest.raises(ValueError, match="no kernel is called 'other'; there are scale"):
            run.launch("other", grid=1, block=1)
        with pytest.raises(ValueError, match="a size is one to three numbers"):
            run.launch("scale", x, x, 1, 1, grid=(1, 1, 1, 1), block=1)


@emulated
def test_an_error_of_the_kernel_is_the_one_that_is_seen() -> None:
    module = ptxkit.parse(SCALE.text.replace("[%rd4]", "[%rd4+64]"))
    run = Run(module, ["block-counts"])
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        launched(run)


@attrs.frozen
class OnDevice:
    """An array of CuPy, as far as we see it."""

    address: int
    count: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.count,), "typestr": "<f4", "version": 3}


def test_a_module_that_others_load_and_launch(device: Device) -> None:
    """What CuPy and cuda.core do: they take the text, and are asked for the address of a variable."""
    y = device.allocate(4 * N + 4)
    device.zero(y, 4 * N + 4)
    with rewriters.instrumented(SCALE, ["block-counts"]) as run:
        module = device.load(run.text.encode())
        function = device.function(module, "scale")
        parameters = [y.to_bytes(8, "little"), y.to_bytes(8, "little"), N.to_bytes(4, "little"), bytes(4)]
        device.launch(function, (GRID, 1, 1), (BLOCK, 1, 1), parameters)  # without a buffer the probes do nothing
        buffer = run.attach(lambda name: device.symbol(module, name), grid=GRID, block=BLOCK)
        for _ in range(2):
            device.launch(function, (GRID, 1, 1), (BLOCK, 1, 1), parameters)
        device.synchronize()
        (table,) = buffer.tables()
        assert table.column("count") == [300, 280, 700, 420, 280]  # counts add up
        buffer.reset()
        assert set(buffer.tables()[0].column("count")) == {0}
        buffer.switch_off()
        device.launch(function, (GRID, 1, 1), (BLOCK, 1, 1), parameters)
        device.synchronize()
        assert set(buffer.tables()[0].column("count")) == {0}
        run.launch("scale", OnDevice(y, N), OnDevice(y, N + 1), N, 1, grid=GRID, block=BLOCK)
        assert run.table("block-counts").column("count") == [150, 140, 350, 210, 140]
    device.free(y)


# --- what goes wrong in other tools, and would be seen here -----------------------------------------------------------------------


def traced(made: Instrumented | None = None, rows: int | None = None) -> tuple[Table, Table, int, int]:
    """The trace of `scale` with its totals, and where x and y were."""
    device = Device()
    x, y = device.allocate(4 * N), device.allocate(4 * N + 4)
    run = Run(SCALE, ["memory-trace:space=global"], rows)
    if made is not None:
        run.module = made.module
    try:
        trace, totals = run.launch("scale", OnDevice(x, N), OnDevice(y, N + 1), N, 1, grid=GRID, block=BLOCK)
    finally:
        run.close()
        device.free(x)
        device.free(y)
    return trace, totals, x, y


def true_accesses(x: int, y: int) -> set[tuple[Any, ...]]:
    """Block, warp, kind, mask and addresses of every access of a warp to global memory, as the source says."""
    found = set()
    for block, warp in itertools.product(range(GRID), range(2)):
        lanes = [lane for lane in range(32) if warp * 32 + lane < BLOCK and block * BLOCK + warp * 32 + lane < N]
        for kind, base, mine in (("read", x, lanes), ("write", y + 4, [lane for lane in lanes if warp * 32 + lane < 7])):
            mask = sum([1 << lane for lane in mine])
            if mine:
                addresses = " ".join([f"{base + 4 * (block * BLOCK + warp * 32 + lane):x}" for lane in mine])
                found.add((block, warp, kind, f"{mask:08x}", addresses))
    return found


def seen_accesses(trace: Table) -> set[tuple[Any, ...]]:
    return {tuple([row[key] for key in ("block", "warp", "kind", "mask", "addresses")]) for row in trace.rows()}


@on_both
def test_traced_addresses_have_their_offsets_and_masks_their_guards() -> None:
    trace, totals, x, y = traced()
    # the threads of a warp come to the load by and by, as they leave the loop: the accesses of a warp put together are what is known
    wanted: dict[tuple[Any, ...], set[str]] = {}
    for block, warp, kind, _, addresses in true_accesses(x, y):
        wanted.setdefault((block, warp, kind), set()).update(addresses.split())
    found: dict[tuple[Any, ...], set[str]] = {}
    for block, warp, kind, mask, addresses in seen_accesses(trace):
        assert int(mask, 16).bit_count() == len(addresses.split())
        found.setdefault((block, warp, kind), set()).update(addresses.split())
    assert found == wanted
    assert totals.column("threads") == [sum([len(addresses) for addresses in wanted.values()])]


@on_both
def test_a_buffer_that_is_too_small_is_not_overrun() -> None:
    whole, totals, _, _ = traced()
    trace, small, _, _ = traced(rows=1)
    assert len(trace) < len(whole)
    assert small.column("accesses") == totals.column("accesses") and small.column("kept") == [len(trace)]
    assert any("of which" in note for note in trace.notes)


@on_both
def test_blocks_of_a_size_that_is_no_multiple_of_32_have_slots_of_their_own() -> None:
    with rewriters.instrumented(SCALE, ["cycles"]) as run:
        _, (warps, blocks) = launched(run)
    assert [(row["block"], row["warp"], row["threads"]) for row in warps.rows()] == [
        (block, warp, threads) for block in range(GRID) for warp, threads in ((0, 32), (1, 18))
    ]
    assert blocks.column("threads") == [BLOCK] * GRID
    assert not warps.notes  # every thread is seen to end, those too that leave by `exit`


@on_both
def test_one_line_functions_and_functions_with_a_prefix_of_the_name() -> None:
    text = (
        SCALE.text.partition(".visible")[0]
        + ".entry scale_up(){ret;}\n.visible .entry scale() { .reg .pred p; mov.pred p, 1; @p exit; ret; }"
    )
    with rewriters.instrumented(ptxkit.parse(text), ["block-counts"]) as run:
        (table,) = run.launch("scale", grid=2, block=33)
        counts = {(row["function"], row["block"]): row["count"] for row in table.rows()}
        assert counts["scale", 0] == 66 and counts["scale_up", 0] == 0
        (table,) = run.launch("scale_up", grid=2, block=33)
        assert {row["function"]: row["count"] for row in table.rows() if row["block"] == 0} == {"scale": 0, "scale_up": 66}


IN_PLACE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry bump(.param .align 8 .b8 pair[16], .param .u64 x)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [x];
    ld.param.u32 %r1, [pair+8];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r3, [%rd1];
    add.u32 %r3, %r3, %r1;
    st.global.u32 [%rd1], %r3;
    ret;
}
"""


@on_both
def test_a_kernel_that_changes_its_input_and_takes_a_struct_by_value() -> None:
    """It is run once: nothing is counted beforehand. The struct is seen whole."""
    with rewriters.instrumented(ptxkit.parse(IN_PLACE), ["memory-trace", "arguments", "block-counts"]) as run:
        x = array.array("i", range(40))
        struct = bytes(range(8)) + (7).to_bytes(8, "little")
        run.launch("bump", Raw(struct), x, grid=1, block=40)
        assert list(x) == [i + 7 for i in range(40)]
        assert run.table("block-counts").column("count") == [40]
        assert run.table("memory-trace-totals").column("threads") == [80]
        by_name = {row["parameter"]: row["value"] for row in run.table("arguments").rows()}
        assert by_name["pair"] == struct.hex()


def exact(made: Instrumented | None) -> bool:
    """Whether the counts and the trace are the true ones."""
    run = Run(SCALE, ["block-counts"])
    if made is not None:
        run.module = made.module
    try:
        return launched(run)[1][0].column("count") == [150, 140, 350, 210, 140]
    finally:
        run.close()


def faulty(probe: str, change: Callable[[str], str]) -> Instrumented:
    """What a probe puts in, spoilt."""
    made = instrument(SCALE, [probe])
    spoilt = change(made.text)
    assert spoilt != made.text, "the fault is not planted"
    return attrs.evolve(made, module=ptxkit.parse(spoilt))


@on_both
def test_a_planted_fault_is_seen_offset_dropped() -> None:
    made = faulty("memory-trace:space=global", lambda text: re.sub(r"(add\.s64 %pk\w+, %rd5), 4;", r"\1, 0;", text))
    trace, _, x, y = traced(made)
    stores = {one for row in trace.rows() if row["kind"] == "write" for one in str(row["addresses"]).split()}
    assert not stores <= {one for *_, kind, _, addresses in true_accesses(x, y) if kind == "write" for one in addresses.split()}


@on_both
def test_a_planted_fault_is_seen_mask_of_a_guarded_access() -> None:
    """The mask of the store is taken without its guard: all threads that come by are in it, not the seven that store."""
    made = faulty("memory-trace:space=global", lambda text: re.sub(r"@%p3 activemask", "activemask", text))
    trace, _, x, y = traced(made)
    stored = {one for *_, kind, _, addresses in true_accesses(x, y) if kind == "write" for one in addresses.split()}
    assert sum([int(str(row["active"])) for row in trace.rows() if row["kind"] == "write"]) != len(stored)


@on_both
def test_a_planted_fault_is_seen_slots_that_overlap() -> None:
    """Warps of a block are rounded down: its last warp, of 18 threads, has the slot of the next block's first."""
    made = faulty("cycles", lambda text: re.sub(r"add\.u32 (%pk\w+), \1, 31;", r"add.u32 \1, \1, 0;", text))
    run = Run(SCALE, ["cycles"])
    run.module = made.module
    try:
        warps, _ = launched(run)[1]
    finally:
        run.close()
    assert [row["threads"] for row in warps.rows()] != [32, 18] * GRID


@on_both
def test_a_planted_fault_is_seen_flush_missed_on_exit() -> None:
    """The flush before `@%p1 exit` is taken out."""
    made = instrument(SCALE, ["block-counts"])
    head, found, tail = made.text.partition("@%p1 exit;")
    start = head.rindex("/*ptxkit+*/")
    assert found and "red.global" in head[start:]
    assert exact(None)
    assert not exact(attrs.evolve(made, module=ptxkit.parse(head[:start] + found + tail)))


@emulated
def test_a_planted_fault_is_seen_probe_past_its_buffer() -> None:
    """The bound check of the trace is taken out: the machine ends the launch, as nothing lies behind the buffer."""
    made = faulty(
        "memory-trace:space=global,rings=1",
        lambda text: re.sub(r"setp\.lt\.and\.u64 (%pk\w+), \S+ \S+ (%pk\w+);", r"mov.pred \1, \2;", text),
    )
    run = Run(SCALE, ["memory-trace:space=global,rings=1"], rows=1)
    run.module = made.module
    with pytest.raises(DeviceError, match="ILLEGAL_ADDRESS"):
        for _ in range(3):
            launched(run)
