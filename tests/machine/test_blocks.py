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
from ptxkit.machine.blocks import ending, extends_stack, kind_of  # noqa: E402

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
