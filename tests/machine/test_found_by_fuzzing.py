"""What `benchmarks/machine_fuzz.py` found: a fault, where there was a traceback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ptxkit.machine import Budget, Fault, Machine, Sampler, Surface, TensorMap, Texture
from ptxkit.machine.blocks import LONGEST

SIGNALS_GLOBAL_MEMORY = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 buffer)
{
    .reg .b32 %r; .reg .b64 %a, %b; .shared .align 16 .b8 s[64];
    ld.param.u64 %b, [buffer];
    mov.u64 %a, s; cvta.shared.u64 %a, %a; mov.b32 %r, 5;
    st.async.mbarrier::complete_tx::bytes.b32 [%a], %r, [%b];
    ret;
}
"""


def test_an_asynchronous_store_that_signals_global_memory_is_a_fault() -> None:
    machine = Machine("sm_90a")
    with pytest.raises(Fault, match="not in shared memory"):
        machine.launch(machine.load(SIGNALS_GLOBAL_MEMORY), "k", np.zeros(8, np.uint64), grid=1, block=32)


@pytest.mark.parametrize("body", ["", ".reg .b32 %r;"], ids=["nothing", "a declaration"])
def test_a_kernel_without_instructions_ends(body: str) -> None:
    machine = Machine("sm_90a")
    machine.launch(machine.load(f".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k() {{ {body} }}"), "k", grid=1, block=32)


@pytest.mark.parametrize("read", ["ld.shared.u32 %r1, [%q1];", "mov.b32 %r1, %q1;", "@%q1 mov.b32 %r1, 0;", "st.shared.u32 [s], {%q1};"])
@pytest.mark.parametrize("after", [False, True], ids=["before the kernel", "after it"])
def test_a_read_of_a_register_of_the_module_is_a_fault(read: str, after: bool) -> None:
    outside = ".reg .b32 %q<4>;\n"
    kernel = (
        ".visible .entry k() {\n.reg .b32 %r<4>; .reg .pred %p; .shared .b32 s;\n"
        f"mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0; @%p bra.uni out; {read}\nout: ret; }}\n"
    )
    machine = Machine("sm_90a")
    code = machine.load(".version 8.7\n.target sm_90a\n.address_size 64\n" + (kernel + outside if after else outside + kernel))
    with pytest.raises(Fault, match="register `%q1` is declared outside of the function") as caught:
        machine.launch(code, "k", grid=1, block=32)
    assert caught.value.kind == "unsupported"


def test_a_call_of_nothing_is_a_fault() -> None:
    with pytest.raises(Fault):
        launch("call;")


def launch(body: str, *arguments: Any, target: str = "sm_100a", **shape: Any) -> None:
    """Executes some instructions: `%a` is a shared address, `%b` what is passed, `%t` the number of the thread."""
    text = (
        f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 given)\n{{\n"
        ".reg .b32 %r<60>, %t, %s; .reg .b64 %a, %b, %g, %d<4>; .reg .f32 %f<8>; .reg .pred %p<3>; .shared .align 1024 .b8 tile[4096];\n"
        "mov.u32 %t, %tid.x; mov.u64 %a, tile; mov.u32 %s, tile; cvta.shared.u64 %g, %a; ld.param.u64 %b, [given];\n"
        f"{body}\nret;\n}}\n"
    )
    machine = Machine(target)
    machine.launch(machine.load(text), "k", *(arguments or (np.zeros(64, np.uint64),)), **{"grid": 1, "block": 32, **shape})


QUERIES = ["width", "level.width", "array_size", "num_mipmap_levels", "num_samples", "memory_layout", "channel_order"]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("thing", [None, Surface(array=np.zeros(4, np.float32)), Sampler()])
def test_a_query_of_what_is_no_texture_is_a_fault(query: str, thing: Any) -> None:
    level = ", %t" if query.startswith("level") else ""
    what = {type(None): "nothing", Surface: "a surface", Sampler: "a sampler"}[type(thing)]
    with pytest.raises(Fault, match=f"a handle of a texture is needed, .* stands for {what}") as caught:
        launch(f"txq.{query}.b32 %r1, [%b]{level};", *([thing] if thing is not None else []))
    assert caught.value.kind == "handle"


@pytest.mark.parametrize("query", ["filter_mode", "addr_mode_1", "force_unnormalized_coords"])
def test_a_query_about_sampling_needs_a_texture_or_a_sampler(query: str) -> None:
    body = f"txq.{query}.b32 %r1, [%b];"
    launch(body, Sampler())
    launch(body, Texture(array=np.zeros(4, np.float32)))
    with pytest.raises(Fault, match=r"a handle of a texture or a sampler is needed, .* stands for a surface"):
        launch(body, Surface(array=np.zeros(4, np.float32)))


def test_each_thread_asks_for_the_extent_of_its_level() -> None:
    out = np.zeros(4, np.uint32)
    text = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 texture, .param .u64 out)
{
    .reg .b32 %t, %r; .reg .b64 %x, %o, %i;
    ld.param.u64 %x, [texture]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;
    txq.level.width.b32 %r, [%x], %t;
    mul.wide.u32 %i, %t, 4; add.u64 %o, %o, %i; st.global.u32 [%o], %r;
    ret;
}
"""
    machine = Machine("sm_90a")
    levels = [np.zeros(4, np.float32), np.zeros(2, np.float32), np.zeros(1, np.float32)]
    machine.launch(machine.load(text), "k", Texture(array=np.zeros(8, np.float32), levels=levels), out, grid=1, block=4)
    assert out.tolist() == [8, 4, 2, 1]


WGMMA = "wgmma.mma_async{}.sync.aligned.m64n8k{}.f32.f16.f16 {{%f0, %f1, %f2, %f3}}, %d0, %d1,{} 0, 1, 1, 0, 0;"


@pytest.mark.parametrize(("sparse", "k", "more"), [("", 16, ""), (".sp", 32, " %r1, 0,")])
@pytest.mark.parametrize(
    ("block", "before", "missing", "count"),
    [
        (64, "", 64, 64),
        (130, "", 126, 2),
        (128, "setp.eq.u32 %p1, %t, 5; @%p1 exit;", 1, 127),
        (256, "setp.ge.u32 %p1, %t, 224; @%p1 exit;", 32, 96),
    ],
)
def test_products_of_a_warpgroup_need_all_of_it(sparse: str, k: int, more: str, block: int, before: str, missing: int, count: int) -> None:
    with pytest.raises(Fault, match=f"all 128 threads of a warpgroup, but {missing} have exited") as caught:
        launch(before + WGMMA.format(sparse, k, more), target="sm_90a", block=block)
    assert (caught.value.kind, caught.value.count) == ("warpgroup", count)


@pytest.mark.parametrize("columns", [0, -1, 31, 33, 96, 513, 1024])
def test_an_allocation_of_another_number_of_columns_is_a_fault(columns: int) -> None:
    with pytest.raises(Fault, match="the number must be 32, 64, 128, 256 or 512") as caught:
        launch(f"mov.b32 %r1, {columns}; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], %r1;")
    assert caught.value.kind == "tensor memory"


@pytest.mark.parametrize(
    ("instruction", "number"),
    [
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%s];", 8),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%s];", 32),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%s], {%r1, %r2};", 16),
    ],
)
def test_addresses_of_rows_come_from_lanes_that_are_there(instruction: str, number: int) -> None:
    for before, missing in (("setp.lt.u32 %p1, %t, 8; @%p1 exit;", 8), ("setp.eq.u32 %p1, %t, 34; @%p1 exit;", 1)):
        with pytest.raises(Fault, match=f"from lanes 0 to {number - 1} of a warp, and {missing} of them are missing") as caught:
            launch(before + instruction, target="sm_90a", block=64)
        assert (caught.value.kind, caught.value.count) == ("warp", 24 if missing == 8 else 31)


ELSEWHERE = {
    "tcgen05.commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%b];",
    "st.async": "st.async.mbarrier::complete_tx::bytes.b32 [%g], %t, [%b];",
}


@pytest.mark.parametrize("instruction", ELSEWHERE.values(), ids=ELSEWHERE)
def test_completion_is_told_to_shared_memory(instruction: str) -> None:
    with pytest.raises(Fault, match="not in shared memory") as caught:
        launch(instruction)
    assert caught.value.kind in ("mbarrier", "address")


TENSOR = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
    .reg .b64 %m, %o, %l; .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 bar; .local .align 8 .b64 own;
    mov.u64 %m, map; cvta.param.u64 %m, %m; ld.param.u64 %o, [out]; mov.u64 %l, own; cvta.local.u64 %l, %l;
    mbarrier.init.shared.b64 [bar], 1;
    cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%m, {0}], [MBARRIER];
    ret;
}
"""


@pytest.mark.parametrize(
    ("mbarrier", "kind", "message"),
    [
        ("%o", "address", "outside of shared memory"),
        ("%l", "address", "outside of shared memory"),
        ("%m", "address", "outside of shared memory"),
        ("bar+4", "address", "misaligned update of 8 bytes"),
        ("tile", "mbarrier", "no mbarrier is there"),
    ],
)
def test_a_copy_of_a_tile_tells_an_mbarrier_in_shared_memory(mbarrier: str, kind: str, message: str) -> None:
    machine = Machine("sm_100a")
    arguments = TensorMap(tensor=np.zeros(64, np.float32), box=(32,)), np.zeros(64, np.uint64)
    with pytest.raises(Fault, match=message) as caught:
        machine.launch(machine.load(TENSOR.replace("MBARRIER", mbarrier)), "k", *arguments, grid=1, block=1)
    assert caught.value.kind == kind
    machine = Machine("sm_100a")
    machine.launch(machine.load(TENSOR.replace("MBARRIER", "bar")), "k", *arguments, grid=1, block=1)


@pytest.mark.parametrize("threads", [32, 1024])
def test_the_budget_is_looked_at_after_each_long_block(threads: int) -> None:
    looks: list[int] = []
    body = "L: " + "add.u32 %r1, %r1, %t;\n" * 5000 + "bra L;"
    with pytest.raises(Fault, match="the budget of the launch is used up"):
        launch(body, block=threads, budget=Budget(instructions=20 * 5001 * threads), progress=lambda s: looks.append(s.steps))
    # 20 iterations of a loop that is cut into blocks
    assert looks[-1] <= 20 * -(-5001 // LONGEST) + 2


MEETS_AND_FOLLOWS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %t, %r, %n; .reg .b64 %b, %o; .reg .pred %p;
    ld.param.u64 %b, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %b, %b, %o; mov.u32 %n, 0;
    setp.gt.u32 %p, %t, 15;
    @%p bra other;
    shfl.sync.idx.b32 %n, %t, 31, 31, 0xFFFFFFFF;
other:
    shfl.sync.idx.b32 %r, %t, 31, 31, 0xFFFFFFFF; add.u32 %n, %n, %r;
    st.global.u32 [%b], %n;
    ret;
}
"""


def test_lanes_that_have_met_may_come_to_where_the_others_were() -> None:
    machine = Machine("sm_80")
    out = np.zeros(32, np.uint32)
    machine.launch(machine.load(MEETS_AND_FOLLOWS), "k", out, grid=1, block=32)
    assert (out[16:] == 31).all()
