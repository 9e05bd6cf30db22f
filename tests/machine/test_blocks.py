"""What ends a basic block."""

from __future__ import annotations

from itertools import islice

import pytest
import selftest
from instructions import _fillings
from sampling import EVERY

np = pytest.importorskip("numpy")

from ptxkit.isa.binding import Bound, bind  # noqa: E402
from ptxkit.isa.table import all_forms  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from ptxkit.machine.blocks import LONGEST, ending, extends_stack, kind_of  # noqa: E402

CHAPTERS = sorted({form.file for form in all_forms()})


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_how_an_instruction_ends_a_block_follows_from_its_opcode(chapter: str) -> None:
    """Blocks are cut without a look at operands."""
    for form in all_forms():
        if form.file != chapter:
            continue
        for filling in islice(_fillings(form, 60), 0, None, EVERY):
            for example in islice(selftest._bound(form, filling), 8):
                bound = bind(example.opcode, example.operands)
                if isinstance(bound, Bound):
                    assert ending(example.opcode) == kind_of(bound)
                    assert extends_stack(example.opcode) == ("alloca" in bound.effects)


def test_a_long_sequence_is_cut_into_blocks_that_do_not_take_much_memory_to_compile() -> None:
    count = 3 * LONGEST
    steps = "\n".join(["add.u32 %r1, %r1, 3;"] * count)
    machine = Machine()
    code = machine.load(
        f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {{
.reg .b64 %rd1;
.reg .b32 %r<2>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, %tid.x;
{steps}
st.global.u32 [%rd1], %r1;
ret;
}}
"""
    )
    out = np.zeros(1, np.uint32)
    machine.launch(code, "k", out, grid=1, block=1)
    assert out.tolist() == [3 * count]
    blocks = code.program("k", False, False).entry.blocks
    assert max([block.end - block.start for block in blocks]) == LONGEST
