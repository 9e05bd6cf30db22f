"""Data races on the machine: the cases of the textbook, each with the twin that has what the other lacks, and generated programs."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.analyses.memory_model import CannotWrite, Taste, generate, racy, to_ptx  # noqa: E402
from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Fault, Machine  # noqa: E402
from ptxkit.machine.monitors.races import Races  # noqa: E402

KERNEL = """.version 8.5
.target sm_90a
.address_size 64
.global .align 4 .u32 flag;
.visible .entry k(.param .u64 out, .param .u32 n)
{{
.reg .pred %p<5>; .reg .b16 %h<3>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
.shared .align 16 .b8 pad[16];
.shared .align 16 .b8 s[1024];
.shared .align 8 .b8 mbar[16];
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.s32 %r3, %r3, %r2;
mov.u32 %r10, mbar; mov.u32 %r9, %ctaid.x;
setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32;
{body}
ret;
}}
"""
OUT = np.zeros(256, np.uint32)
SCHEDULES = ("lockstep", "late", "early", 1, 2)


def findings(body: str, grid: int = 1, block: int = 64, schedule: str | int = "lockstep", cluster: int | None = None) -> list[Any]:
    machine = Machine()
    code = machine.load(KERNEL.format(body=body))
    return list(
        machine.launch(code, "k", OUT.copy(), 7, grid=grid, block=block, cluster=cluster, schedule=schedule, checks="races").findings
    )


def test_races_on_some_lines_only() -> None:
    # two races, and a third pair that a barrier orders
    body = """st.shared.u32 [s], %r1;
ld.shared.u32 %r5, [s+4];
@%p1 st.shared.u32 [s+4], %r5;
bar.sync 0;
st.shared.u32 [s], %r5;"""
    machine = Machine()
    text = KERNEL.format(body=body)
    code = machine.load(text)
    line = text.splitlines().index("ld.shared.u32 %r5, [s+4];") + 1

    def found(lines: frozenset[int] | None) -> set[tuple[int, ...]]:
        races = Races(lines=lines)
        run = machine.launch(code, "k", OUT.copy(), 7, grid=1, block=64, monitors=(races,))
        return {tuple(sorted({one.diagnostic.span.line, *[side.span.line for side in one.diagnostic.related]})) for one in run.findings}

    assert found(frozenset()) == set()
    assert found(frozenset([line, line + 1])) == {(line, line + 1)}
    assert found(frozenset([line - 1, line + 3])) <= found(None)
    assert (line - 1, line + 3) not in found(frozenset([line - 1, line + 3]))
    assert (line, line + 1) in found(None)


@pytest.mark.parametrize(("space", "left_out"), [("global", False), ("shared", True)])
def test_no_races_are_looked_for_in_a_space_that_is_left_out(space: str, left_out: bool) -> None:
    machine, races = Machine(), Races(left_out=frozenset((".shared",)))
    code = machine.load(KERNEL.format(body={"global": "st.global.u32 [%rd1], %r1;", "shared": "st.shared.u32 [s], %r1;"}[space]))
    run = machine.launch(code, "k", OUT.copy(), 7, grid=1, block=64, monitors=(races,))
    assert (not run.findings) == left_out


def test_what_a_space_that_is_left_out_orders_counts_in_others() -> None:
    body = """@!%p1 bra READ;
st.global.u32 [%rd1], 1; st.release.cta.shared.u32 [s], 1; bra END;
READ: @%p2 bra END;
W: ld.acquire.cta.shared.u32 %r5, [s]; setp.ne.u32 %p3, %r5, 1; @%p3 bra W;
ld.global.u32 %r6, [%rd1];
END:"""
    for acquire, is_ordered in (("acquire.cta", True), ("relaxed.cta", False)):
        machine, races = Machine(), Races(left_out=frozenset((".shared",)))
        code = machine.load(KERNEL.format(body=body.replace("acquire.cta", acquire)))
        run = machine.launch(code, "k", OUT.copy(), 7, grid=1, block=64, monitors=(races,))
        assert (not run.findings) == is_ordered


ROWS = """shl.b32 %r4, %r1, 4; mov.u32 %r5, s; add.s32 %r5, %r5, %r4;
{first}
{between}
{second}"""
LANES_EXCHANGE = {
    "stored as rows, then loaded": (
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r1, %r1, %r1, %r1};", "ld.shared.u32 %r6, [%r5];",
    ),
    "stored, then loaded as rows": (
        "st.shared.v4.u32 [%r5], {%r1, %r1, %r1, %r1};", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r6, %r7, %r8, %r11}, [%r5];",
    ),
    "loaded as rows, then stored": (
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r5];", "st.shared.v4.u32 [%r5], {%r1, %r1, %r1, %r1};",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LANES_EXCHANGE)
def test_lanes_that_exchange_rows_need_a_barrier(case: str) -> None:
    """Each lane gives the address of its own row, but the words of a row are in the registers of four lanes."""
    first, second = LANES_EXCHANGE[case]
    (one,) = findings(ROWS.format(first=first, between="", second=second), block=32)

    assert (one.diagnostic.rule, one.witness["bytes"]) == ("S009", 4)
    assert not findings(ROWS.format(first=first, between="bar.warp.sync -1;", second=second), block=32)


@pytest.mark.parametrize(("word", "severities"), [("%r6", ["INFO"]), ("%r1", ["ERROR"])])
def test_rows_at_one_address_may_be_equal(word: str, severities: list[str]) -> None:
    body = f"""and.b32 %r6, %r1, 3; and.b32 %r4, %r1, 32; mov.u32 %r5, s; add.s32 %r5, %r5, %r4;
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {{{word}}};"""

    assert [one.diagnostic.severity.name for one in findings(body, block=32)] == severities


MESSAGE = """
setp.ne.u32 %p3, %r9, 0; @%p3 bra READ;
st.global.u32 [%rd1], 42;
{write}
bra END;
READ: {read}
setp.eq.u32 %p4, %r5, 0; @%p4 bra END;
ld.global.u32 %r6, [%rd1];
END:
"""
MBARRIER = """
@%p1 mbarrier.init.shared.b64 [%r10], 32;
bar.sync 0;
@!%p2 bra WAIT;
st.shared.u32 [%r3], %r1;
mbarrier.arrive{arrive}.shared.b64 %rd2, [%r10];
bra END;
WAIT: mbarrier.{wait}.shared.b64 %p3, [%r10], 0;
@!%p3 bra WAIT;
ld.shared.u32 %r5, [%r3+-128];
END:
"""
GROUPS = """
@!%p2 bra CONSUMER;
st.shared.u32 [%r3], %r1;
bar.{first}, 64;
bra END;
CONSUMER: bar.sync {second}, 64;
ld.shared.u32 %r5, [%r3+-128];
END:
"""
CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "neighbours": ("st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r3+128];", {}, ["S003"]),
    "neighbours, bar.sync": ("st.shared.u32 [%r3], %r1; bar.sync 0; ld.shared.u32 %r5, [%r3+128];", {}, []),
    "read, then overwritten": ("ld.shared.u32 %r5, [%r3+128]; st.shared.u32 [%r3], %r1;", {}, ["S003"]),
    "read, bar.sync, overwritten": ("ld.shared.u32 %r5, [%r3+128]; bar.sync 0; st.shared.u32 [%r3], %r1;", {}, []),
    "lanes of a warp": ("st.shared.u32 [%r3], %r1; ld.shared.u32 %r5, [%r3+4];", {"block": 32}, ["S009"]),
    "lanes, bar.warp.sync": ("st.shared.u32 [%r3], %r1; bar.warp.sync -1; ld.shared.u32 %r5, [%r3+4];", {"block": 32}, []),
    "lanes, half a mask": (
        "st.shared.u32 [%r3], %r1; setp.lt.u32 %p3, %r1, 16; @!%p3 bra A; bar.warp.sync 0xffff; bra B; A: bar.warp.sync 0xffff0000;"
        "B: ld.shared.u32 %r5, [%r3+4];", {"block": 32}, ["S009"],
    ),
    "lanes, a shuffle orders nothing": (
        "st.shared.u32 [%r3], %r1; shfl.sync.idx.b32 %r6, %r1, 0, 31, -1; ld.shared.u32 %r5, [%r3+4];", {"block": 32}, ["S009"],
    ),
    "one word, two values": ("st.shared.u32 [s], %r1;", {}, ["S003"]),
    "one word, one value": ("st.shared.u32 [s], 5;", {}, ["S003 info"]),
    "one word, one value, two instructions": (
        "@%p2 st.shared.u32 [s], 5; @%p2 bra END; st.shared.u32 [s], 5; END:", {}, ["S003 info", "S009 info", "S009 info"],
    ),
    "one word, atomics": ("atom.shared.add.u32 %r5, [s], 1;", {}, []),
    "one word, red and plain read": ("red.shared.add.u32 [s], 1; ld.shared.u32 %r5, [s];", {}, ["S003"]),
    "a counter that the last CTA resets": (
        "atom.global.add.u32 %r5, [%rd1], 1; setp.ne.u32 %p3, %r5, 3; @%p3 bra END; st.global.u32 [%rd1], 0; END:",
        {"grid": 4, "block": 1}, [],
    ),
    "a counter that the first CTA resets": (
        "atom.global.add.u32 %r5, [%rd1], 1; setp.ne.u32 %p3, %r5, 0; @%p3 bra END; st.global.u32 [%rd1], 0; END:",
        {"grid": 4, "block": 1}, ["race"],
    ),
    "a swap that fails is a read": (
        "@%p1 ld.global.u32 %r5, [%rd1]; @!%p1 atom.global.cas.b32 %r5, [%rd1], 9, 8;", {"grid": 1, "block": 2}, [],
    ),
    "a release, then a strong write to the same word": (
        MESSAGE.format(
            write="st.release.gpu.global.u32 [flag], 0; st.relaxed.gpu.global.u32 [flag], 1;", read="ld.acquire.gpu.global.u32 %r5, [flag];"
        ),
        {"grid": 2, "block": 1}, [],
    ),
    "message, release and acquire": (
        MESSAGE.format(write="st.release.gpu.global.u32 [flag], 1;", read="ld.acquire.gpu.global.u32 %r5, [flag];"),
        {"grid": 2, "block": 1}, [],
    ),
    "message, scope too narrow": (
        MESSAGE.format(write="st.release.cta.global.u32 [flag], 1;", read="ld.acquire.gpu.global.u32 %r5, [flag];"),
        {"grid": 2, "block": 1}, ["race", "race"],
    ),
    "message, fences": (
        MESSAGE.format(
            write="fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [flag], 1;",
            read="ld.relaxed.gpu.global.u32 %r5, [flag]; fence.acq_rel.gpu;",
        ),
        {"grid": 2, "block": 1}, [],
    ),
    "message, membar and volatile": (
        MESSAGE.format(write="membar.gl; st.volatile.global.u32 [flag], 1;", read="ld.volatile.global.u32 %r5, [flag]; membar.gl;"),
        {"grid": 2, "block": 1}, [],
    ),
    "message, no fence to read": (
        MESSAGE.format(write="fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [flag], 1;", read="ld.relaxed.gpu.global.u32 %r5, [flag];"),
        {"grid": 2, "block": 1}, ["race"],
    ),
    "message, plain flag": (
        MESSAGE.format(write="st.global.u32 [flag], 1;", read="ld.global.u32 %r5, [flag];"), {"grid": 2, "block": 1}, ["race", "race"],
    ),
    "CTAs, one array": ("mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r9;", {"grid": 2}, ["race"]),
    "CTAs, their own elements": (
        "mad.lo.u32 %r4, %r9, 64, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd2, %rd2, %rd1; st.global.u32 [%rd2], %r9;", {"grid": 2}, [],
    ),
    "CTAs, atomics of a CTA": ("atom.global.cta.add.u32 %r5, [%rd1], 1;", {"grid": 2, "block": 1}, ["race"]),
    "CTAs, atomics": ("atom.global.add.u32 %r5, [%rd1], 1;", {"grid": 2, "block": 33}, []),
    "named barrier, arrive and sync": (GROUPS.format(first="arrive 1", second="1"), {}, []),
    "named barriers, two of them": (
        "@!%p2 bra C; st.shared.u32 [%r3], %r1; bar.sync 1, 32; bra END; C: bar.sync 2, 32; ld.shared.u32 %r5, [%r3+-128]; END:",
        {}, ["S003"],
    ),
    "cluster barrier": (
        "st.shared.u32 [%r3], %r1; mapa.shared::cluster.u32 %r4, %r3, 1; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        "ld.shared::cluster.u32 %r5, [%r4];", {"grid": 2, "cluster": 2}, [],
    ),
    "cluster, no barrier": (
        "st.shared.u32 [%r3], %r1; mapa.shared::cluster.u32 %r4, %r3, 1; ld.shared::cluster.u32 %r5, [%r4];",
        {"grid": 2, "cluster": 2}, ["G005"],
    ),
    "cluster barrier, relaxed": (
        "st.shared.u32 [%r3], %r1; mapa.shared::cluster.u32 %r4, %r3, 1; barrier.cluster.arrive.relaxed.aligned;"
        "barrier.cluster.wait.aligned; ld.shared::cluster.u32 %r5, [%r4];", {"grid": 2, "cluster": 2}, ["G005"],
    ),
    "mbarrier": (MBARRIER.format(arrive="", wait="try_wait.parity"), {}, []),
    "mbarrier, polled": (MBARRIER.format(arrive="", wait="test_wait.parity"), {}, []),
    "mbarrier, copies arrive": (
        "@%p1 mbarrier.init.shared.b64 [%r10], 32; bar.warp.sync -1; cp.async.ca.shared.global [%r3], [%rd1], 4;"
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r10]; W: mbarrier.try_wait.parity.shared.b64 %p3, [%r10], 0; @!%p3 bra W;"
        "ld.shared.u32 %r5, [%r3+4];", {"block": 32}, [],
    ),
    "a byte of a word": ("st.shared.u32 [s], %r1; ld.shared.u8 %h1, [s+3];", {"block": 2}, ["S009", "S009"]),
    "bytes beside one another": ("add.s32 %r4, %r1, 0; mov.u32 %r5, s; add.s32 %r5, %r5, %r4; st.shared.u8 [%r5], %h1;", {}, []),
    "words, then their bytes, ordered": (
        "st.shared.u32 [%r3], %r1; bar.sync 0; mov.u32 %r5, s; add.s32 %r5, %r5, %r1; ld.shared.u8 %h1, [%r5];", {}, [],
    ),
    "atomics, though bytes are accessed elsewhere": (
        "atom.shared.add.u32 %r5, [s], 1; st.shared.u8 [pad], %h1; atom.shared.add.u32 %r5, [s], 1;", {"block": 1}, [],
    ),
    "atomics of two warps, though bytes are accessed between them": (
        "@!%p2 bra A; atom.shared.add.u32 %r5, [s], 1; bra END; A: add.s32 %r3, %r3, 64; st.shared.u8 [%r3], %h1;"
        "atom.shared.add.u32 %r5, [s], 1; END:", {}, [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_textbook(name: str) -> None:
    """Under every schedule nothing that is ordered is a race; what is not is one under the first schedule or a later one."""
    body, launch, expected = CASES[name]
    seen: list[str] = []
    for schedule in SCHEDULES if not expected or name.startswith("message") else SCHEDULES[:1]:
        found = findings(body, **launch, schedule=schedule)
        rules = sorted([f.diagnostic.rule + (" info" if f.diagnostic.severity is Severity.INFO else "") for f in found])
        seen = max(seen, rules, key=len)
    assert seen == expected


def test_message_and_witness() -> None:
    (found,) = findings("st.shared.u32 [%r3], 42;\nld.shared.u32 %r5, [%r3+4];", block=32)
    assert found.diagnostic.message == (
        "data race: thread (1,0,0) of CTA (0,0,0) writes s[4..7] (line 15), thread (0,0,0) reads it (line 16), and nothing orders them"
    )
    assert found.diagnostic.notes == ("these instructions race 31 times in this launch",)
    assert found.count == 31
    assert found.witness == {
        "accesses": [
            {"cta": [0, 0, 0], "thread": [1, 0, 0], "line": 15, "kind": "write", "value": "0x2a"},
            {"cta": [0, 0, 0], "thread": [0, 0, 0], "line": 16, "kind": "read", "value": "0x2a"},
        ],
        "space": "shared",
        "variable": "s",
        "offset": 4,
        "bytes": 4,
        "launch": {"kernel": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "arguments": {"n": 7}, "schedule": "lockstep"},
    }


STORE = "st.global.u32 [%rd2], %r1; "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (STORE + "ld.global.nc.u32 %r5, [%rd2];", ["S007"]),
        (STORE + "bar.sync 0; ld.global.nc.u32 %r5, [%rd1+8];", ["S007"]),
        (STORE + "ld.global.nc.u32 %r5, [%rd1+8];", ["S007", "race"]),
        ("ld.global.nc.u32 %r5, [%rd2]; bar.sync 0; " + STORE, []),
        (STORE + "bar.sync 0; ld.global.u32 %r5, [%rd1+8];", []),
        (STORE + "ld.global.nc.u32 %r5, [%rd2+512];", []),
    ],
    ids=["its own", "behind a barrier", "in no order", "read before", "coherent", "elsewhere"],
)
def test_loads_through_the_read_only_path(body: str, expected: list[str]) -> None:
    machine = Machine()
    code = machine.load(KERNEL.format(body="mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd1, %rd2; " + body))
    run = machine.launch(code, "k", OUT.copy(), 7, grid=1, block=64, checks="all")

    assert sorted(finding.diagnostic.rule for finding in run.findings) == expected


def test_lanes_that_store_to_one_word() -> None:
    (found,) = findings("st.global.u32 [%rd1+8], %r1;", block=2, schedule=3)
    assert found.diagnostic.message == (
        "data race: thread (0,0,0) of CTA (0,0,0) writes out[8..11] (line 15), thread (1,0,0) writes it (line 15), and nothing orders them"
    )
    assert [access["value"] for access in found.witness["accesses"]] == ["0x0", "0x1"]
    assert found.witness["launch"]["seed"] == 3


def test_what_was_found_before_a_fault_is_in_it() -> None:
    with pytest.raises(Fault) as caught:
        findings("st.shared.u32 [s], %r1; trap;")
    assert [finding.diagnostic.rule for finding in caught.value.findings] == ["S003"]


def test_a_check_that_there_is_not() -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="no check 'rices'; there are all, races"):
        machine.launch(machine.load(KERNEL.format(body="")), "k", OUT, 7, grid=1, block=1, checks=("rices",))


@pytest.mark.parametrize("taste", [Taste(), Taste(mixed=True, messages=False), Taste(proxies=True)], ids=["scopes", "sizes", "proxies"])
def test_generated_programs_against_the_axioms(taste: Taste) -> None:
    """Chapter 8 says of each whether it has a race; the machine finds no other."""
    judged = racing = shown = 0
    for seed in range(20):
        program = generate(seed, taste)
        try:
            kernel = to_ptx(program)
        except CannotWrite:
            continue
        machine = Machine()
        code = machine.load(kernel.text)
        found = False
        for schedule in SCHEDULES:
            memory = np.frombuffer(bytearray(kernel.memory() or bytes(16)), np.uint8).copy()
            results = np.zeros(kernel.result_bytes, np.uint8)
            monitor = Races(by_the_letter=True)
            machine.launch(code, "litmus", memory, results, grid=kernel.grid, block=kernel.block, schedule=schedule, monitors=[monitor])
            found |= any(race.rule != "P003" for race in monitor.races.values())
        truth = racy(program)
        assert truth or not found, f"seed {seed}"
        judged, racing, shown = judged + 1, racing + truth, shown + found
    assert judged >= 15
    assert shown >= 0.9 * racing > 0


def test_addresses_of_the_process_are_watched_too() -> None:
    text = KERNEL.format(body="st.global.u32 [%rd1], %r1;")
    found = []
    for host in (False, True):
        machine = Machine(host_memory=host)
        code = machine.load(text)
        given = np.zeros(256, np.uint32)
        found.append(machine.launch(code, "k", given, 7, grid=1, block=64, checks="races").findings)
        buffer = machine.alloc(1024)
        found.append(machine.launch(code, "k", buffer.address, 7, grid=1, block=64, checks="races").findings)
        assert given[0] and not given[1:].any()
    assert len({(len(one), one[0].diagnostic.rule, one[0].diagnostic.span.line) for one in found}) == 1


def test_a_race_of_one_instruction_in_a_loop_has_the_values_that_each_wrote() -> None:
    """Thread 1 writes a word in its first iteration, thread 0 in its second, with others written in between."""
    body = """
        setp.gt.u32 %p3, %r1, 1; @%p3 ret;
        mov.u32 %r4, 0; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
        L: add.u32 %r5, %r1, %r4; add.u32 %r5, %r5, 40; st.global.u32 [%rd3], %r5; add.s64 %rd3, %rd3, 4;
        add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 3; @%p4 bra L;
    """
    found = findings(body, block=32)

    assert [access["value"] for access in found[0].witness["accesses"]] == ["0x29", "0x29"]
    assert found[0].diagnostic.severity is Severity.INFO


def test_an_operation_in_flight_has_the_bytes_that_are_read() -> None:
    body = """
        st.shared.u32 [%r3], 77; bar.sync 0;
        @%p1 cp.async.ca.shared.global [%r3], [%rd1], 4;
        @%p1 ld.shared.u32 %r6, [%r3]; cp.async.wait_all;
    """
    found = findings(body)

    assert [access.get("value") for access in found[0].witness["accesses"]] == [None, "0x4d"]
