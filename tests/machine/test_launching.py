"""Kernels from start to end: what they compute, and how they end when they cannot."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.machine import Budget, Fault, Machine  # noqa: E402

HEAD = ".version 8.5\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 out", before: str = "") -> str:
    """A module with one kernel `k` that begins with `%rd1` = its first parameter and `%r1` = its thread's number in the grid."""
    start = """
    .reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<20>; .reg .b16 %h<9>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r1, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    """
    return f"{HEAD}{before}\n.visible .entry k({parameters})\n{{{start}{body}\n}}\n"


def run(text: str, *arguments: Any, count: int = 64, grid: int = 1, block: int | None = None, **options: Any) -> Any:
    """What a kernel leaves in an array of `count` numbers, its first argument."""
    machine = Machine()
    out = np.zeros(count, np.uint32)
    machine.launch(machine.load(text), "k", out, *arguments, grid=grid, block=block or count // grid, **{"budget": 20.0, **options})
    return out


def faults(text: str, *arguments: Any, **options: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        run(text, *arguments, **options)
    return caught.value


SCHEDULES = ("lockstep", "late", "early", 0, 1, 2)
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES)


@every_schedule
def test_divergent_paths_reconverge(schedule: Any) -> None:
    text = kernel("""
    and.b32 %r5, %r1, 1; setp.eq.s32 %p1, %r5, 0;
    @%p1 bra EVEN;
    mul.lo.s32 %r6, %r1, 3; bra END;
    EVEN: shr.u32 %r6, %r1, 1;
    END: st.global.u32 [%rd3], %r6; ret;""")
    number = np.arange(256)
    expected = np.where(number % 2 == 0, number // 2, number * 3)
    assert (run(text, count=256, grid=2, schedule=schedule) == expected).all()


@every_schedule
def test_a_loop_of_different_lengths(schedule: Any) -> None:
    text = kernel("""
    mov.u32 %r6, 0; mov.u32 %r7, 0;
    LOOP: add.s32 %r6, %r6, %r7; add.s32 %r7, %r7, 1; setp.le.u32 %p1, %r7, %r1; @%p1 bra LOOP;
    st.global.u32 [%rd3], %r6; ret;""")
    number = np.arange(96)
    assert (run(text, count=96, schedule=schedule) == number * (number + 1) // 2).all()


@every_schedule
def test_a_barrier_orders_shared_memory(schedule: Any) -> None:
    text = kernel(
        """
    mov.u32 %r5, s; shl.b32 %r6, %r4, 2; add.s32 %r7, %r5, %r6; st.shared.u32 [%r7], %r1;
    bar.sync 0;
    xor.b32 %r8, %r6, 508; add.s32 %r9, %r5, %r8; ld.shared.u32 %r10, [%r9]; st.global.u32 [%rd3], %r10; ret;""",
        before=".shared .align 4 .b8 s[512];",
    )
    number = np.arange(512)
    assert (run(text, count=512, grid=4, schedule=schedule) == (number ^ 127)).all()


@every_schedule
def test_named_barriers_of_warps(schedule: Any) -> None:
    """A producer warp arrives, a consumer warp waits; neither waits for the third."""
    text = kernel(
        """
    shr.u32 %r5, %r4, 5; setp.eq.s32 %p1, %r5, 0; setp.eq.s32 %p2, %r5, 1; and.b32 %r6, %r4, 31; shl.b32 %r6, %r6, 2;
    mov.u32 %r7, s; add.s32 %r7, %r7, %r6; mov.u32 %r8, 7;
    @%p1 bra PRODUCE; @%p2 bra CONSUME; bra END;
    PRODUCE: add.s32 %r9, %r4, 100; st.shared.u32 [%r7], %r9; bar.arrive 3, 64; bra END;
    CONSUME: bar.sync 3, 64; ld.shared.u32 %r8, [%r7];
    END: st.global.u32 [%rd3], %r8; ret;""",
        before=".shared .align 4 .b8 s[128];",
    )
    expected = np.concatenate([np.full(32, 7), np.arange(32) + 100, np.full(32, 7)])
    assert (run(text, count=96, schedule=schedule) == expected).all()


@every_schedule
def test_a_reduction_at_a_barrier(schedule: Any) -> None:
    text = kernel("""
    and.b32 %r5, %r4, 3; setp.eq.s32 %p1, %r5, 0;
    bar.red.popc.u32 %r6, 0, %p1; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;
    selp.u32 %r7, 1000, 0, %p2; selp.u32 %r8, 100, 0, %p3; add.s32 %r6, %r6, %r7; add.s32 %r6, %r6, %r8;
    st.global.u32 [%rd3], %r6; ret;""")
    assert (run(text, count=128, grid=2, schedule=schedule) == 116).all()


def test_a_barrier_does_not_wait_for_threads_that_have_exited() -> None:
    text = kernel("setp.gt.u32 %p1, %r4, 40; @%p1 exit; bar.sync 0; st.global.u32 [%rd3], %r4; ret;")
    assert (run(text) == np.where(np.arange(64) > 40, 0, np.arange(64))).all()


@every_schedule
def test_a_lock_that_lanes_of_one_warp_contend_for(schedule: Any) -> None:
    """Needs the independent scheduling of threads: the owner of the lock must go on while the others of its warp spin."""
    text = kernel(
        """
    mov.u32 %r20, 0;
    SPIN: atom.shared.cas.b32 %r5, [lock], 0, 1; setp.ne.s32 %p1, %r5, 0; @%p1 bra SPIN;
    ld.shared.u32 %r6, [n]; add.s32 %r6, %r6, 1; st.shared.u32 [n], %r6;
    membar.cta; atom.shared.exch.b32 %r7, [lock], 0;
    st.global.u32 [%rd3], %r6; ret;""",
        before=".shared .align 4 .u32 lock; .shared .align 4 .u32 n;",
    )
    text = text.replace(
        "mov.u32 %r20, 0;", "setp.eq.s32 %p5, %r4, 0; @!%p5 bra GO; st.shared.u32 [lock], 0; st.shared.u32 [n], 0; GO: bar.sync 0;"
    )
    text = re.sub(r"st\.shared\.u32 \[(\w+)\], 0;", r"mov.u32 %r21, 0; st.shared.u32 [\1], %r21;", text)
    assert sorted(run(text, schedule=schedule)) == list(range(1, 65))


@every_schedule
def test_ctas_that_wait_for_later_ones(schedule: Any) -> None:
    """A barrier of the grid in global memory, with more CTAs than are resident at first."""
    grid = 300
    text = kernel(
        """
    setp.ne.s32 %p1, %r4, 0; @%p1 bra WAITED;
    ld.param.u64 %rd5, [counter]; atom.global.add.u32 %r5, [%rd5], 1;
    mov.u32 %r6, %nctaid.x;
    SPIN: ld.acquire.gpu.global.u32 %r7, [%rd5]; setp.lt.u32 %p2, %r7, %r6; @%p2 bra SPIN;
    WAITED: bar.sync 0; ld.param.u64 %rd5, [counter]; ld.global.u32 %r8, [%rd5]; st.global.u32 [%rd3], %r8; ret;""",
        parameters=".param .u64 out, .param .u64 counter",
    )
    found = run(text, np.zeros(1, np.uint32), count=grid * 512, grid=grid, block=512, schedule=schedule)
    assert (found == grid).all()


def test_shuffles_and_votes_within_part_of_a_warp() -> None:
    text = kernel("""
    and.b32 %r5, %r4, 31; setp.lt.u32 %p1, %r5, 16; mov.u32 %r6, 0;
    @!%p1 bra HIGH;
    shfl.sync.down.b32 %r6, %r1, 1, 31, 0xffff; vote.sync.ballot.b32 %r7, %p1, 0xffff; add.s32 %r6, %r6, %r7; bra END;
    HIGH: shfl.sync.bfly.b32 %r6|%p2, %r1, 1, 31, 0xffff0000; activemask.b32 %r8; xor.b32 %r6, %r6, %r8;
    END: st.global.u32 [%rd3], %r6; ret;""")
    number = np.arange(64)
    lane = number % 32
    low = np.where(lane < 15, number + 1, number) + 0xFFFF  # from lane 16, which is not there, lane 15 gets its own
    high = (number ^ 1) ^ 0xFFFF0000
    assert (run(text) == np.where(lane < 16, low, high)).all()


@every_schedule
def test_parts_of_a_warp_that_come_to_a_shuffle_one_after_another(schedule: Any) -> None:
    text = kernel("""
    and.b32 %r5, %r4, 3; mov.u32 %r6, %r1;
    LOOP: setp.eq.s32 %p1, %r5, 0; @%p1 bra MEET; add.s32 %r6, %r6, 1; add.s32 %r5, %r5, -1; bra LOOP;
    MEET: shfl.sync.bfly.b32 %r7, %r6, 1, 31, -1; st.global.u32 [%rd3], %r7; ret;""")
    number = np.arange(256) ^ 1
    assert (run(text, count=256, schedule=schedule) == number + number % 4).all()


@every_schedule
def test_recursion(schedule: Any) -> None:
    fib = """.func (.param .b32 ret) fib(.param .b32 n)
    { .reg .pred %p<3>; .reg .b32 %r<9>;
    ld.param.u32 %r1, [n]; mov.u32 %r5, %r1; setp.lt.s32 %p1, %r1, 2; @%p1 bra DONE;
    add.s32 %r2, %r1, -1;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r3, [b]; }
    add.s32 %r2, %r1, -2;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call.uni (b), fib, (a); ld.param.b32 %r4, [b]; }
    add.s32 %r5, %r3, %r4;
    DONE: st.param.b32 [ret], %r5; ret; }"""
    body = """rem.u32 %r5, %r1, 10;
    { .param .b32 a; .param .b32 b; st.param.b32 [a], %r5; call (b), fib, (a); ld.param.b32 %r6, [b]; }
    st.global.u32 [%rd3], %r6; ret;"""
    numbers = [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert run(kernel(body, before=fib), schedule=schedule).tolist() == [numbers[i % 10] for i in range(64)]


def test_arguments_that_are_declared_together() -> None:
    less = """.func (.param .b32 ret) less(.param .b32 a, .param .b32 b)
    { .reg .b32 %r<3>; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b]; sub.s32 %r1, %r1, %r2; st.param.b32 [ret], %r1; ret; }"""
    body = """mad.lo.s32 %r5, %r1, 5, 3;
    { .param .b32 p<2>; .param .b32 q<1>; st.param.b32 [p0], %r5; st.param.b32 [p1], %r1;
    call.uni (q0), less, (p0, p1); ld.param.b32 %r6, [q0]; }
    st.global.u32 [%rd3], %r6; ret;"""
    assert (run(kernel(body, before=less)) == 4 * np.arange(64) + 3).all()


def test_calls_through_pointers_split_a_group() -> None:
    functions = "".join(
        f".func (.reg .b32 r) f{i}(.reg .b32 a) {{ .reg .b32 %t; {op}; mov.b32 r, %t; ret; }}\n"
        for i, op in enumerate(("add.s32 %t, a, 7", "mul.lo.s32 %t, a, 3", "xor.b32 %t, a, 255"))
    )
    table = ".global .align 8 .u64 table[3] = {f0, f1, f2};"
    body = """rem.u32 %r5, %r1, 3; mul.wide.u32 %rd4, %r5, 8; mov.u64 %rd5, table; add.s64 %rd5, %rd5, %rd4; ld.global.u64 %rd6, [%rd5];
    P: .callprototype (.reg .b32 _) _ (.reg .b32 _);
    call (%r6), %rd6, (%r1), P; st.global.u32 [%rd3], %r6; ret;"""
    number = np.arange(64)
    expected = np.select([number % 3 == 0, number % 3 == 1], [number + 7, number * 3], number ^ 255)
    assert (run(kernel(body, before=functions + table)) == expected).all()


def test_local_memory_and_indexed_branches() -> None:
    body = """.local .align 4 .b8 a[64];
    and.b32 %r5, %r1, 3; mov.u64 %rd4, a; mul.wide.u32 %rd5, %r5, 4; add.s64 %rd6, %rd4, %rd5;
    st.local.u32 [%rd6], %r1; cvta.local.u64 %rd7, %rd6; ld.u32 %r6, [%rd7];
    T: .branchtargets A, B, C, D;
    brx.idx %r5, T;
    A: add.s32 %r6, %r6, 1000; bra END;
    B: add.s32 %r6, %r6, 2000; bra END;
    C: add.s32 %r6, %r6, 3000; bra END;
    D: add.s32 %r6, %r6, 4000;
    END: st.global.u32 [%rd3], %r6; ret;"""
    number = np.arange(64)
    assert (run(kernel(body)) == number + 1000 * (number % 4 + 1)).all()


def test_initialised_variables_point_at_each_other() -> None:
    before = """.const .align 4 .b32 c[4] = {10, 20, 30, 40};
    .global .align 4 .b32 g[2] = {5, 6};
    .global .align 8 .u64 p[2] = {generic(g)+4, g};"""
    body = """and.b32 %r5, %r1, 3; mul.wide.u32 %rd4, %r5, 4; mov.u64 %rd5, c; add.s64 %rd5, %rd5, %rd4; ld.const.u32 %r6, [%rd5];
    ld.global.u64 %rd7, [p]; ld.u32 %r7, [%rd7]; mul.lo.s32 %r6, %r6, %r7; st.global.u32 [%rd3], %r6; ret;"""
    assert run(kernel(body, before=before))[:4].tolist() == [60, 120, 180, 240]


def test_guarded_instructions_leave_the_other_lanes_alone() -> None:
    body = """mov.u32 %r6, 9; and.b32 %r5, %r1, 1; setp.eq.s32 %p1, %r5, 1;
    @%p1 add.s32 %r6, %r1, 100; @!%p1 shl.b32 %r6, %r1, 1; @%p1 st.global.u32 [%rd3], %r6; ret;"""
    number = np.arange(64)
    assert (run(kernel(body)) == np.where(number % 2, number + 100, 0)).all()


def test_arguments_as_they_come() -> None:
    text = f"""{HEAD}.visible .entry k(.param .u64 out, .param .f32 f, .param .s16 h, .param .align 4 .b8 s[8])
    {{ .reg .b32 %r<9>; .reg .b64 %rd<3>; .reg .f32 %f<3>; .reg .s16 %h<2>;
    ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [f]; ld.param.s16 %h1, [h]; ld.param.u32 %r1, [s+4];
    cvt.s32.s16 %r2, %h1; st.global.f32 [%rd1], %f1; st.global.s32 [%rd1+4], %r2; st.global.u32 [%rd1+8], %r1; ret; }}"""
    machine = Machine()
    code = machine.load(text)
    buffer = machine.alloc(12)
    machine.launch(code, "k", buffer, 2.5, -3, bytes(4) + (77).to_bytes(4, "little"), grid=1, block=1)
    assert buffer.read(np.float32, 1)[0] == 2.5
    assert buffer.read(np.int32, 3)[1:].tolist() == [-3, 77]
    machine.launch(code, "k", buffer.address, np.float32(1), np.int16(4), bytes(8), grid=1, block=1)
    assert buffer.read(np.int32, 3)[1:].tolist() == [4, 0]
    with pytest.raises(TypeError, match="4 parameters, 1 arguments"):
        machine.launch(code, "k", buffer, grid=1, block=1)
    with pytest.raises(ValueError, match="does not fit"):
        machine.launch(code, "k", buffer, 1.0, 1 << 20, bytes(8), grid=1, block=1)
    buffer.free()
    with pytest.raises(Fault, match="outside of global memory"):
        machine.launch(code, "k", buffer, 1.0, 1, bytes(8), grid=1, block=1)


def test_extern_symbols_are_those_loaded_before() -> None:
    machine = Machine()
    machine.load(
        f"{HEAD}.visible .global .align 4 .u32 g[2] = {{3, 4}};\n.visible .func (.reg .b32 r) f(.reg .b32 a) {{ add.s32 r, a, 40; ret; }}"
    )
    code = machine.load(
        kernel(
            "ld.global.u32 %r5, [g+4]; call (%r6), f, (%r5); st.global.u32 [%rd3], %r6; ret;",
            before=".extern .global .align 4 .u32 g[2]; .extern .func (.reg .b32 r) f(.reg .b32 a);",
        )
    )
    out = np.zeros(1, np.uint32)
    machine.launch(code, "k", out, grid=1, block=1)
    assert out[0] == 44


def test_printf() -> None:
    text = kernel(
        """.local .align 8 .b8 a[16]; mov.u64 %rd4, a; st.local.u32 [%rd4], %r1; mov.f64 %d1, 0d3FF8000000000000; st.local.f64 [%rd4+8],
        %d1; cvta.local.u64 %rd5, %rd4; mov.u64 %rd6, form; cvta.global.u64 %rd7, %rd6;
    { .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %rd7; st.param.b64 [p1], %rd5; call.uni (r), vprintf, (p0, p1); }
    ret;""",
        before=".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 form[11] = {37, 100, 58, 32, 37, 46, 50, 102, 33, 10, 0};",
    ).replace(".reg .pred", ".reg .f64 %d<3>; .reg .pred", 1)
    machine = Machine()
    run_ = machine.launch(machine.load(text), "k", np.zeros(4, np.uint32), grid=1, block=2)
    assert run_.output == "0: 1.50!\n1: 1.50!\n"


def test_printf_of_strings_that_differ() -> None:
    # each thread prints another string, the second one with a width that is an argument
    text = kernel(
        """.local .align 8 .b8 a[16]; mov.u64 %rd4, a; add.u32 %r2, %r1, 4; st.local.u32 [%rd4], %r2; mov.u64 %rd8, words;
        cvta.global.u64 %rd8, %rd8; mul.wide.u32 %rd9, %r1, 3; add.u64 %rd8, %rd8, %rd9; st.local.u64 [%rd4+8], %rd8;
        cvta.local.u64 %rd5, %rd4; mov.u64 %rd6, form; cvta.global.u64 %rd7, %rd6;
    { .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %rd7; st.param.b64 [p1], %rd5; call.uni (r), vprintf, (p0, p1); }
    ret;""",
        before=".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
        ".global .align 1 .b8 words[6] = {97, 98, 0, 99, 0, 0};\n"
        ".global .align 1 .b8 form[6] = {60, 37, 42, 115, 62, 0};",
    )
    machine = Machine()
    run_ = machine.launch(machine.load(text), "k", np.zeros(4, np.uint32), grid=1, block=2)
    assert run_.output == "<  ab><    c>"


def test_the_same_seed_is_the_same_run() -> None:
    text = kernel(
        "mov.u64 %rd4, n; atom.global.add.u32 %r5, [%rd4], 1; st.global.u32 [%rd3], %r5; ret;", before=".global .align 4 .u32 n = 0;"
    )
    seen = {tuple(run(text, count=256, schedule=seed)) for seed in (3, 3, 4, 5, 6)}
    assert len(seen) > 1
    assert tuple(run(text, count=256, schedule=3)) == tuple(run(text, count=256, schedule=3))


# --- how it ends when it cannot go on


def test_an_endless_loop_ends_with_its_budget() -> None:
    fault = faults(kernel("LOOP: add.s32 %r5, %r5, 1; bra LOOP;"), budget=0.3)
    assert fault.kind == "budget" and "0.3 seconds" in fault.reason and fault.line is not None
    fault = faults(kernel("LOOP: add.s32 %r5, %r5, 1; bra LOOP;"), budget=Budget(instructions=10_000))
    assert fault.kind == "budget" and "10000 thread instructions" in fault.reason


def test_a_wild_pointer_names_thread_and_line() -> None:
    fault = faults(kernel("setp.ne.s32 %p1, %r4, 5; @%p1 bra END;\nmov.u64 %rd3, 64;\nst.global.u32 [%rd3], %r1;\nEND: ret;"))
    assert fault.kind == "address" and fault.threads == (((0, 0, 0), (5, 0, 0)),)
    assert fault.diagnostic.span.line == fault.line
    assert (
        "st.global"
        in kernel("setp.ne.s32 %p1, %r4, 5; @%p1 bra END;\nmov.u64 %rd3, 64;\nst.global.u32 [%rd3], %r1;\nEND: ret;").splitlines()[
            fault.line - 1
        ]
    )


def test_a_deadlock_says_who_waits_where() -> None:
    text = kernel("setp.lt.u32 %p1, %r4, 32; @%p1 bra ONE;\nbar.sync 1, 64; bra END;\nONE: bar.sync 2, 64;\nEND: ret;")
    fault = faults(text)
    assert fault.kind == "deadlock" and fault.count == 64
    assert sorted(note.partition(":")[0][:16] for note in fault.diagnostic.notes) == ["32 threads wait ", "32 threads wait "]


def test_a_flag_that_nobody_sets_is_a_standstill() -> None:
    fault = faults(kernel("SPIN: ld.acquire.gpu.global.u32 %r5, [%rd1]; setp.eq.s32 %p1, %r5, 0; @%p1 bra SPIN; ret;"), budget=60)
    assert fault.kind == "standstill" and fault.count == 64 and fault.diagnostic.notes[0].startswith("64 threads iterate on line")


@pytest.mark.parametrize("pause", ["", "nanosleep.u32 100;"])
def test_who_looks_at_the_clock_while_nothing_changes_stands_still(pause: str) -> None:
    spin = f"SPIN: mov.u64 %rd7, %globaltimer; {pause} ld.acquire.gpu.global.u32 %r5, [%rd1]; setp.eq.s32 %p1, %r5, 0; @%p1 bra SPIN; ret;"
    fault = faults(kernel(spin), budget=60)
    assert fault.kind == "standstill" and fault.count == 64


def test_who_gives_up_after_some_time_does() -> None:
    look = "ld.acquire.gpu.global.u32 %r5, [%rd1]; setp.eq.s32 %p1, %r5, 0; mov.u64 %rd7, %globaltimer; sub.s64 %rd8, %rd7, %rd6;"
    spin = f"mov.u64 %rd6, %globaltimer; SPIN: {look} setp.lt.and.s64 %p1, %rd8, 2000000000, %p1; @%p1 bra SPIN; ret;"
    run(kernel(spin), count=2, budget=60)


@pytest.mark.parametrize(
    "wait",
    [
        "add.s32 %r6, %r6, 1; setp.lt.s32 %p1, %r6, 60000;",
        "mov.u64 %rd7, %clock64; sub.s64 %rd8, %rd7, %rd6; setp.lt.s64 %p1, %rd8, 9000000;",
        "atom.global.add.u32 %r7, [%rd3], 1; setp.lt.s32 %p1, %r7, 30000;",
    ],
)
def test_a_long_wait_is_none(wait: str) -> None:
    run(kernel(f"mov.u32 %r6, 0; mov.u64 %rd6, %clock64; SPIN: {wait} @%p1 bra SPIN; ret;"), count=2, budget=60)


def test_a_mask_that_names_a_lane_elsewhere_is_a_deadlock() -> None:
    text = kernel("setp.eq.s32 %p1, %r4, 3; @%p1 bra OTHER; bar.warp.sync 0xffffffff; bra END; OTHER: bar.sync 5, 64; END: ret;")
    assert faults(text, count=32).kind == "deadlock"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("trap;", "trap"),
        ("wibble.f32 %f1, %f2;", "unsupported"),
        ("mov.u64 %rd9, 4096; P: .callprototype _ (); call %rd9, P;", "call"),
        ("ld.shared.u32 %r5, [1024];", "address"),
        ("ld.global.u32 %r5, [%rd1+2];", "address"),
    ],
)
def test_other_faults(body: str, kind: str) -> None:
    assert faults(kernel(body + " ret;")).kind == kind


def test_recursion_without_end() -> None:
    before = ".func f(.param .b32 n) { .reg .b32 %r; ld.param.b32 %r, [n]; { .param .b32 a; st.param.b32 [a], %r; call f, (a); } ret; }"
    fault = faults(kernel("{ .param .b32 a; st.param.b32 [a], %r1; call f, (a); } ret;", before=before))
    assert fault.kind in ("stack", "address")


def test_shapes_and_sizes_that_cannot_be() -> None:
    text = kernel("ret;")
    assert faults(text, grid=2**31, block=1).kind == "launch"
    assert faults(text, block=1025).kind == "launch"
    assert faults(text, shared=300_000).kind == "shared"
    assert faults(kernel("st.shared.u8 [s], 0; ret;", before=".shared .align 4 .b8 s[300000];").replace(", 0;", ", %r1;")).kind == "shared"
    with pytest.raises(Fault) as caught:
        Machine().alloc(200 << 30)
    assert caught.value.kind == "memory"


def test_directives_bound_the_shape() -> None:
    ends = kernel("ret;")
    assert faults(ends.replace(")\n{", ") .reqntid 32, 2\n{"), block=64).kind == "launch"
    run(ends.replace(")\n{", ") .reqntid 32, 2\n{"), block=(32, 2))
    assert faults(ends.replace(")\n{", ") .maxntid 32\n{"), block=64).kind == "launch"


@every_schedule
def test_clusters(schedule: Any) -> None:
    """Each CTA writes to the shared memory of its neighbour in the cluster."""
    body = """
    mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1; mov.u32 %r7, s; mapa.shared::cluster.u32 %r8, %r7, %r6;
    shl.b32 %r9, %r4, 2; add.s32 %r8, %r8, %r9; add.s32 %r7, %r7, %r9;
    barrier.cluster.arrive; barrier.cluster.wait;
    st.shared::cluster.u32 [%r8], %r1;
    barrier.cluster.arrive; barrier.cluster.wait;
    ld.shared.u32 %r10, [%r7]; st.global.u32 [%rd3], %r10; ret;"""
    text = kernel(body, before=".shared .align 4 .b8 s[128];").replace(")\n{", ") .explicitcluster .reqnctapercluster 2\n{")
    assert (run(text, count=256, grid=8, block=32, schedule=schedule) == np.arange(256) ^ 32).all()


def test_a_grid_of_the_largest_size_ends_with_its_budget() -> None:
    assert faults(kernel("ret;"), grid=2**31 - 1, block=1, budget=0.3).kind == "budget"


def test_errors_are_found_when_a_module_is_loaded() -> None:
    with pytest.raises(ValueError, match="line 4") as caught:
        Machine().load(f"{HEAD}.entry k() {{ mov.u32 %r1 %r2 }}")
    assert caught.value.diagnostics  # type: ignore[attr-defined]


def test_a_function_with_a_kernel_s_name_is_no_kernel() -> None:
    fault = faults(kernel("ret;") + ".func k(.reg .b32 a, .reg .b32 b) { ret; }\n")

    assert (fault.kind, "defined twice" in fault.reason) == ("launch", True)


def test_a_function_is_entered_by_its_alias() -> None:
    before = ".visible .func set(.param .u64 at) { .reg .b64 %rd<3>; ld.param.u64 %rd1, [at]; st.global.u32 [%rd1], 7; ret; }\n"
    before += ".visible .func put(.param .u64 at);\n.alias put, set;\n"
    text = kernel("{ .param .u64 given; st.param.u64 [given], %rd3; call put, (given); } ret;", before=before)

    assert run(text, count=4).tolist() == [7] * 4


def test_what_lanes_do_at_two_instructions_is_reported_at_their_own() -> None:
    text = kernel("""
    mov.u32 %r5, %tid.x; and.b32 %r6, %r5, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra A;
    shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1; bra E;
    A: shfl.sync.bfly.b32 %r6, %r5, 2, 31, 0xffff;
    E: st.global.u32 [%rd3], %r6; ret;""")
    machine = Machine()
    found = machine.launch(machine.load(text), "k", np.zeros(32, np.uint32), grid=1, block=32, budget=20.0, checks="barriers").findings

    (out,) = [one.diagnostic for one in found if one.diagnostic.rule == "C004"]
    assert "0xffff" in text.splitlines()[out.span.line - 1]


def test_faults_are_kept_without_the_frames_that_they_left() -> None:
    fault = faults(kernel("trap;"))

    assert fault.__traceback__ is not None
    assert fault.detached() is fault
    assert fault.__traceback__ is None


def test_the_address_of_an_element_counts_scalars() -> None:
    """6.4.2; ptxas gives the same numbers."""
    text = kernel("""
    .shared .align 16 .f32 x[128]; .shared .align 16 .v4 .f32 y[4]; .shared .align 8 .b64 z[4][2];
    mov.u64 %rd4, x; mov.u64 %rd5, x[1+2]; sub.s64 %rd6, %rd5, %rd4; cvt.u32.u64 %r5, %rd6;
    mov.u64 %rd4, y; mov.u64 %rd5, y[1]; sub.s64 %rd6, %rd5, %rd4; cvt.u32.u64 %r6, %rd6;
    mov.u32 %r8, z; mov.u32 %r9, z[5]; sub.s32 %r7, %r9, %r8;
    st.global.u32 [%rd1], %r5; st.global.u32 [%rd1+4], %r6; st.global.u32 [%rd1+8], %r7; ret;""")
    assert run(text, count=3, block=1).tolist() == [12, 4, 40]


@pytest.mark.parametrize("schedule", ["lockstep", 4])
def test_lanes_of_a_mask_meet_at_two_instructions(schedule: str | int) -> None:
    """9.7.10.6: what counts is that all lanes of the mask execute the same operation, not where it stands."""
    text = kernel("""
    mov.u32 %r5, %tid.x; setp.lt.u32 %p1, %r5, 16; @%p1 bra A;
    shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1; add.u32 %r6, %r6, 100; bra E;
    A: shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1;
    E: mul.wide.u32 %rd4, %r5, 4; add.s64 %rd4, %rd1, %rd4; st.global.u32 [%rd4], %r6; ret;""")
    found = run(text, count=32, block=32, schedule=schedule).tolist()
    assert found == [lane + 16 if lane < 16 else lane - 16 + 100 for lane in range(32)]


@pytest.mark.parametrize("schedule", ["lockstep", 4])
def test_lanes_of_a_mask_meet_at_two_forms_of_an_instruction(schedule: str | int) -> None:
    """One asks for the predicate, too (found by fuzzing: module 7,101,829)."""
    text = kernel("""
    mov.u32 %r5, %tid.x; mov.u32 %r7, 9; setp.lt.u32 %p1, %r5, 16; @%p1 bra A;
    match.all.sync.b32 %r6, %r7, -1; bra E;
    A: match.all.sync.b32 %r6|%p2, %r7, -1; selp.u32 %r6, 1, 0, %p2;
    E: st.global.u32 [%rd3], %r6; ret;""")
    assert run(text, count=32, block=32, schedule=schedule).tolist() == [1] * 16 + [0xFFFFFFFF] * 16


@pytest.mark.parametrize(("schedule", "leader"), [("lockstep", 4), ("late", 4), ("early", 29), (3, 29)])
def test_the_schedule_decides_which_lane_is_elected(schedule: str | int, leader: int) -> None:
    text = kernel("elect.sync %r5|%p1, 0x3ffffff0; selp.u32 %r6, 100, 0, %p1; add.u32 %r5, %r5, %r6; st.global.u32 [%rd3], %r5; ret;")
    found = run(text, count=32, block=32, schedule=schedule).tolist()

    assert found[4:30] == [leader + 100 * (lane == leader) for lane in range(4, 30)]


@pytest.mark.parametrize("schedule", ["lockstep", "early", 3])
def test_a_cooperative_grid_has_memory_at_which_it_synchronizes(schedule: Any) -> None:
    """As `grid_group::sync` does: every CTA counts itself there, and waits until all have."""
    text = kernel("""
    mov.u32 %r5, %envreg1; mov.u32 %r6, %envreg2; mov.b64 %rd4, {%r6, %r5};
    st.global.u32 [%rd3], 7; setp.eq.s64 %p1, %rd4, 0; @%p1 ret;
    bar.sync 0; setp.ne.u32 %p2, %r4, 0; @%p2 bra DONE;
    atom.acq_rel.gpu.global.add.u32 %r7, [%rd4+4], 1;
    L: ld.acquire.gpu.global.u32 %r8, [%rd4+4]; mov.u32 %r12, %nctaid.x; setp.lt.u32 %p3, %r8, %r12; @%p3 bra L;
    DONE: bar.sync 0; sub.u32 %r9, 63, %r1; mul.wide.u32 %rd5, %r9, 4; add.s64 %rd6, %rd1, %rd5;
    ld.global.u32 %r10, [%rd6]; bar.sync 0; add.u32 %r10, %r10, %r1; st.global.u32 [%rd3+256], %r10;
    ret;
    """)

    assert run(text, count=128, grid=2, block=32, cooperative=True, schedule=schedule)[64:].tolist() == list(range(7, 71))
    assert run(text, count=128, grid=2, block=32)[64:].tolist() == [0] * 64


def test_a_bulk_copy_of_an_odd_size_and_a_barrier_that_is_not_there() -> None:
    copy = ".shared .align 128 .b8 s[64]; mov.u32 %r5, s; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r5], %r1; ret;"

    assert faults(kernel(copy), count=64).kind == "copy-size"
    assert faults(kernel("bar.sync 16; ret;"), checks="all").kind == "barrier"


NANS = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .b32 %t, %r, %q; .reg .b64 %b, %o; .reg .f32 %f<9>; .reg .pred %p;
    ld.param.u64 %b, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 16; add.u64 %b, %b, %o;
    or.b32 %r, %t, 0xFFC12300; mov.b32 %f0, %r;
    add.f32 %f1, %f0, 0f3F800000;
    mul.f32 %f2, %f1, %f1;
    fma.rn.f32 %f3, %f2, %f0, %f1;
    st.global.f32 [%b], %f3;
    mul.f32 %f4, %f3, %f0; sub.f32 %f4, %f4, %f0; mov.b32 %q, %f4;
    st.global.u32 [%b + 4], %q;
    add.f32 %f5, %f0, %f1; setp.gt.u32 %p, %t, 3;
    @%p mul.f32 %f5, %f5, %f5;
    st.global.f32 [%b + 8], %f5;
    fma.rn.f32 %f6, %f0, %f0, %f0;
    bra.uni next;
next:
    st.global.f32 [%b + 12], %f6;
    ret;
}
"""


def test_every_nan_that_arithmetic_gives_and_a_program_sees_is_the_canonical_one() -> None:
    machine = Machine("sm_80")
    out = np.zeros((40, 4), np.uint32)
    machine.launch(machine.load(NANS), "k", out, grid=1, block=40)
    assert (out == 0x7FFFFFFF).all(), out


def test_memory_does_not_grow_with_the_launches() -> None:
    machine = Machine()
    code = machine.load(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 out) {\n"
        ".reg .b64 %a; .reg .b32 %v;\nld.param.u64 %a, [out]; ld.global.u32 %v, [%a+4]; add.u32 %v, %v, 1; st.global.u32 [%a], %v; ret; }"
    )
    kept = machine.alloc(8)
    kept.write(np.array([1, 2], np.uint32))
    sizes = set()
    for count in (2, 1 << 22, 2):
        out = np.zeros(count, np.uint32)
        machine.launch(code, "k", out, grid=1, block=1)
        machine.launch(code, "k", kept, grid=1, block=1)
        sizes.add(machine.memory.size)
        assert out[0] == 1 and kept.read(np.uint32, (2,)).tolist() == [3, 2]
    assert len(sizes) == 1


def test_host_threads_lay_out_and_launch_the_same_kernel() -> None:
    text = kernel("st.global.u32 [%rd3], %r1; ret;")
    together = Barrier(4)

    def use(code: Any) -> bool:
        together.wait()
        out = np.zeros(32, np.uint32)
        assert code.program("k", False, False).kernel == "k" and list(code.defined) == ["k"]
        code.machine.launch(code, "k", out, grid=1, block=32)
        return bool((out == np.arange(32)).all())

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for _ in range(10):
                assert all(threads.map(use, [Machine().load(text)] * 4))
    finally:
        sys.setswitchinterval(before)
