"""How a launch ends that cannot be completed: the line, the threads and the reason."""

from __future__ import annotations

import pytest
from test_launching import faults, kernel

pytest.importorskip("numpy")

from ptxkit.machine import Budget

ENDLESS = "LOOP: add.u32 %r5, %r5, 1; st.global.u32 [%rd3], %r5; bra LOOP;"


def text_at(text: str, line: int | None) -> str:
    assert line is not None
    return text.splitlines()[line - 1].strip()


def test_a_fault_names_the_instruction_and_its_threads() -> None:
    text = kernel("setp.ne.u32 %p1, %r1, 5;\n@%p1 ret;\nst.global.u32 [%rd3+4096], %r1;\nret;")
    fault = faults(text, count=8)

    assert fault.kind == "address"
    assert text_at(text, fault.line) == "st.global.u32 [%rd3+4096], %r1;"
    assert (fault.count, list(fault.threads)) == (1, [((0, 0, 0), (5, 0, 0))])


def test_a_deadlock_says_where_each_part_waits() -> None:
    text = kernel("setp.lt.u32 %p1, %r1, 32;\n@%p1 bra ONE;\nbar.sync 2, 64;\nret;\nONE:\nbar.sync 1, 64;\nret;")
    fault = faults(text, count=64)

    assert fault.kind == "deadlock"
    assert fault.count == 64
    assert sorted(note.partition("`")[2] for note in fault.diagnostic.notes) == ["bar.sync 1, 64;`", "bar.sync 2, 64;`"]


def test_the_budget_ends_a_loop_without_end() -> None:
    fault = faults(kernel(ENDLESS), count=1, budget=Budget(instructions=1000))

    assert fault.kind == "budget"
    assert "1000 thread instructions" in fault.reason
