"""The Python function that a basic block becomes."""

from __future__ import annotations

from typing import Any

import pytest
from test_launching import kernel

np = pytest.importorskip("numpy")

from ptxkit.machine import Machine  # noqa: E402


def launched(body: str) -> Any:
    """The function of the machine, after a launch of one warp."""
    machine = Machine()
    code = machine.load(kernel(body))
    machine.launch(code, "k", np.zeros(64, np.uint32), grid=1, block=32)
    return code.program("k", False, False).entry


def test_only_registers_that_are_read_later_are_stored() -> None:
    body = launched("add.u32 %r5, %r1, 1; add.u32 %r6, %r5, 1; bra.uni NEXT; NEXT: bar.sync 0; st.global.u32 [%rd3], %r6; ret;")
    scope = body.sites[0].scope
    block = next(one for one in body.blocks if any(body.instructions[i].opcode.text == "add.u32" for i in range(one.start, one.end)))

    assert body.named(scope, "%r6")[0] in block.run.written
    assert body.named(scope, "%r5")[0] not in block.run.written


@pytest.mark.parametrize(("instruction", "is_pure"), [("add.u32 %r5, %r1, 1;", True), ("st.global.u32 [%rd3], %r1;", False)])
def test_a_block_that_stores_changes_more_than_registers(instruction: str, is_pure: bool) -> None:
    body = launched(f"bar.sync 0; {instruction} bar.sync 0; st.global.u32 [%rd3], %r5; ret;")
    wanted = instruction.split()[0]
    block = next(one for one in body.blocks if one.end - one.start == 1 and body.instructions[one.start].opcode.text == wanted)

    assert block.run.is_pure == is_pure


def test_each_line_knows_its_instruction() -> None:
    body = launched("add.u32 %r5, %r1, 1; mul.lo.u32 %r6, %r5, 3; st.global.u32 [%rd3], %r6; ret;")
    block = body.blocks[0]

    assert sorted(block.run.places.values()) == sorted(range(block.start, block.end))
