"""Locks and flags that do not order what they are there to order, each with the twin that has what the other lacks."""

from __future__ import annotations

from typing import Any

import pytest

np = pytest.importorskip("numpy")

from ptxkit.diagnostics import Severity  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402

KERNEL = """.version 8.5
.target sm_90
.address_size 64
.global .align 4 .u32 lock;
.global .align 4 .u32 other;
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<5>; .reg .b32 %r<12>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [p];
mov.u32 %r1, %ctaid.x;
setp.ne.u32 %p1, %r1, 0;
{body}
ret;
}}
"""
TAKE = "{label}: atom.global.cas.b32 %r2, [lock], 0, 1;\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra {label};"
SCHEDULES = ("lockstep", "late", 1)


def found(body: str, grid: int = 2, block: int = 1) -> list[Any]:
    """The findings under all schedules, one for each pair of lines."""
    by_lines = {}
    machine = Machine()
    code = machine.load(KERNEL.format(body=body))
    for schedule in SCHEDULES:
        for name in ("lock", "other"):
            machine.write(code.address(name), bytes(4))
        run = machine.launch(code, "k", np.zeros(8, np.uint32), grid=grid, block=block, schedule=schedule, checks="locks")
        for one in run.findings:
            lines = (one.diagnostic.span.line, *[related.span.line for related in one.diagnostic.related])
            by_lines.setdefault(lines, one)
    return list(by_lines.values())


def critical(acquire: str, release: str, store: str = "st.volatile.global.u32 [%rd1], %r1;") -> str:
    """A store between taking a lock and setting it free."""
    take = TAKE.format(label="L")
    return "\n".join([take, acquire, store, release, "atom.global.exch.b32 %r3, [lock], 0;"])


def messages(body: str, **launch: int) -> list[str]:
    return [one.diagnostic.message for one in found(body, **launch)]


def test_a_lock_with_both_fences() -> None:
    assert found(critical("membar.gl;", "membar.gl;")) == []
    assert found(critical("fence.acq_rel.gpu;", "fence.acq_rel.gpu;")) == []


@pytest.mark.parametrize("acquire", ["", "membar.gl;"])
def test_a_lock_that_is_set_free_without_a_fence(acquire: str) -> None:
    (one,) = found(critical(acquire, ""))
    assert (one.diagnostic.rule, one.diagnostic.name, one.diagnostic.severity) == (
        "G007", "unordered-critical-section", Severity.WARNING,
    )  # fmt: skip
    assert one.diagnostic.message == (
        "what thread (0,0,0) of CTA (1,0,0) writes to p[0..3] may be lost: waiting for lock[0..3] does not order it after the write by "
        "thread (0,0,0) of CTA (0,0,0)"
    )
    assert one.diagnostic.notes == ("no release at a scope that includes both threads follows the write",)
    assert [side["kind"] for side in one.witness["accesses"]] == ["write", "write"]
    assert (one.witness["space"], one.witness["offset"], one.witness["bytes"]) == ("global", 0, 4)


def test_a_lock_that_is_taken_without_a_fence() -> None:
    (one,) = found(critical("", "membar.gl;"))
    assert one.diagnostic.notes == ("no fence follows the wait",)


def test_a_fence_of_too_small_a_scope() -> None:
    assert len(found(critical("membar.gl;", "membar.cta;"))) == 1
    # it includes both threads if they are of one CTA
    of_warps = "mov.u32 %r1, %tid.x;\nand.b32 %r4, %r1, 31;\nsetp.ne.u32 %p3, %r4, 0;\n@%p3 bra END;\n"
    body = of_warps + critical("membar.cta;", "membar.cta;") + "\nEND:"
    assert found(body, grid=1, block=64) == []


def test_release_and_acquire_of_the_lock_itself() -> None:
    take = "L: atom.acquire.gpu.global.cas.b32 %r2, [lock], 0, 1;\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra L;"
    store = "st.relaxed.gpu.global.u32 [%rd1], %r1;"
    assert found("\n".join([take, store, "atom.release.gpu.global.exch.b32 %r3, [lock], 0;"])) == []
    assert len(found("\n".join([take, store, "atom.relaxed.gpu.global.exch.b32 %r3, [lock], 0;"]))) == 1


def flag(fence: str, after: str = "") -> str:
    """One CTA writes data and sets a flag; the other one waits for it and reads them."""
    return f"""@%p1 bra READER;
st.volatile.global.u32 [%rd1], 7;
{fence}
st.volatile.global.u32 [lock], 1;
bra END;
READER: ld.volatile.global.u32 %r2, [lock];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra READER;
{after}
ld.volatile.global.u32 %r3, [%rd1];
st.volatile.global.u32 [%rd1+4], %r3;
END:"""


def test_a_flag_and_its_data() -> None:
    assert found(flag("membar.gl;", "membar.gl;")) == []
    (message,) = messages(flag("membar.cta;", "membar.gl;"))
    assert "may read an old value of p[0..3]" in message
    assert len(found(flag("", "membar.gl;"))) == 1


def test_a_strong_read_right_after_the_wait_is_not_reported() -> None:
    assert found(flag("membar.gl;")) == []


def test_plain_accesses_are_races_and_not_reported_again() -> None:
    assert found(critical("membar.gl;", "", "st.global.u32 [%rd1], %r1;")) == []


def test_a_store_without_the_lock() -> None:
    body = "@%p1 bra OTHER;\n" + critical("membar.gl;", "membar.gl;", "st.volatile.global.u32 [%rd1], 5;") + "\nbra END;\nOTHER: {}\nEND:"
    (message,) = messages(body.format("st.volatile.global.u32 [%rd1], 6;"))
    assert "while it holds lock[0..3]" in message
    assert "either value may remain" in message
    # the same value, whoever is last; another place; a read, as of a counter that is only looked at
    assert found(body.format("st.volatile.global.u32 [%rd1], 5;")) == []
    assert found(body.format("st.volatile.global.u32 [%rd1+4], 6;")) == []
    assert found(body.format("ld.volatile.global.u32 %r5, [%rd1];\nst.volatile.global.u32 [%rd1+8], %r5;")) == []


def test_two_locks() -> None:
    fence = "fence.acq_rel.gpu;"
    first = critical(fence, fence, "st.volatile.global.u32 [%rd1], 5;")
    second = critical(fence, fence, "st.volatile.global.u32 [%rd1], 6;").replace("lock", "other").replace("L", "M")
    assert len(found(f"@%p1 bra OTHER;\n{first}\nbra END;\nOTHER: {second}\nEND:")) == 1


def test_a_lock_that_is_never_set_free_is_a_flag() -> None:
    # the thread that takes the token keeps it: nothing says that the store belongs to it
    take = TAKE.format(label="L")
    body = (
        f"@%p1 bra OTHER;\n{take}\nmembar.gl;\nst.volatile.global.u32 [%rd1], 5;\nbra END;\nOTHER: st.volatile.global.u32 [%rd1], 6;\nEND:"
    )
    assert found(body) == []


def test_threads_of_one_warp_that_store_without_the_lock() -> None:
    body = "mov.u32 %r1, %tid.x;\n" + critical("membar.gl;", "membar.gl;") + "\nst.volatile.global.u32 [%rd1], 9;"
    assert found(body, grid=1, block=4) == []


def test_flags_themselves_are_no_data() -> None:
    # each CTA sets the flag that the other one waits for, without a fence: there is nothing that goes with it
    body = """@%p1 bra SECOND;
st.volatile.global.u32 [lock], 1;
A: ld.volatile.global.u32 %r2, [other];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra A;
bra END;
SECOND: ld.volatile.global.u32 %r2, [lock];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra SECOND;
st.volatile.global.u32 [other], 1;
END:"""
    assert found(body) == []


def test_idle_where_nothing_waits() -> None:
    from ptxkit.machine.monitors.locks import Locks

    for body, expected in (
        ("st.volatile.global.u32 [%rd1], %r1;", True),
        (critical("", "", "st.global.u32 [%rd1], %r1;"), True),
        (critical("", ""), False),
    ):
        machine, locks = Machine(), Locks()
        machine.launch(machine.load(KERNEL.format(body=body)), "k", np.zeros(8, np.uint32), grid=1, block=1, monitors=(locks,))
        assert locks.is_idle is expected
