from __future__ import annotations

import numpy as np
import pytest

from ptxkit.machine.monitors.shadow import Shadow, code_of, repeated

WEAK, STRONG = 0, 2


@pytest.mark.parametrize("is_refined_first", [False, True])
def test_a_piece_without_a_write_has_a_weak_one(is_refined_first: bool) -> None:
    """A log of reads asks for the strength of the last write of pieces that nothing has written, also if these were divided."""
    shadow = Shadow(0, 4, 32)
    shadow.reach(64)
    shadow.use(np.arange(4))
    if is_refined_first:
        shadow.refine(1)
    assert shadow.write_strength(np.arange(4)).tolist() == [WEAK] * 4
    piece, thread = np.array([8]), np.array([0])
    shadow.note_writes(piece, thread, 1, 0, STRONG, repeated(code_of(1, 0), 1))
    assert shadow.write_strength(np.arange(9)).tolist() == [WEAK] * 8 + [STRONG]
    assert [column.tolist() for column in (shadow.last_writes(piece).strength, shadow.last_writes(piece).code)] == [[STRONG], [1]]


def test_a_divided_write_is_one_of_its_parts() -> None:
    shadow = Shadow(0, 4, 32)
    shadow.reach(64)
    shadow.use(np.arange(4))
    shadow.note_writes(np.array([1]), np.array([3]), 5, 7, STRONG, repeated(code_of(4, 0), 1))
    shadow.refine(1)
    last = shadow.last_writes(np.arange(4, 8))
    assert last.code.tolist() == [code_of(4, offset) for offset in range(4)]
    assert (last.thread.tolist(), last.strength.tolist()) == ([3] * 4, [STRONG] * 4)
    assert shadow.write_strength(np.arange(4)).tolist() == [WEAK] * 4


def test_accesses_of_several_sizes_and_offsets() -> None:
    shadow = Shadow(0, 4, 32)
    shadow.reach(64)
    piece = np.arange(4)
    code = np.array([code_of(8, 0), code_of(8, 4), code_of(16, 12), code_of(4, 0)])
    shadow.use(piece)
    shadow.note_writes(piece, piece, 1, 5, WEAK, code)
    last = shadow.last_writes(piece)
    assert last.code.tolist() == code.tolist()
    assert (last.site.tolist(), last.strength.tolist()) == ([5] * 4, [WEAK] * 4)
