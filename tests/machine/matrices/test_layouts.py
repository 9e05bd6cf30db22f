"""Fragments: every element of a matrix is held, by one lane unless it is copied, and a fragment goes there and back."""

from __future__ import annotations

import numpy as np
import pytest

from ptxkit.machine.matrices import layouts

A = [(8, 4, 64), (8, 16, 8), (8, 32, 4), (16, 4, 32), (16, 4, 64), (16, 8, 16), (16, 8, 32), (16, 16, 16), (16, 16, 8), (16, 32, 8)]
A += [(16, 16, 64), (16, 32, 4), (16, 64, 4), (16, 128, 1), (16, 256, 1), (64, 16, 16), (64, 8, 32), (64, 32, 8), (64, 256, 1)]
ALL = [layouts.multiplicand_a(*a) for a in A]
ALL += [layouts.multiplicand_b(k, 8, bits) for k, bits in ((4, 32), (8, 16), (16, 16), (32, 8), (64, 4), (16, 64), (256, 1), (64, 8))]
ALL += [layouts.accumulator(m, n) for m, n in ((8, 8), (16, 8), (64, 8), (64, 104), (64, 256))]
ALL += [layouts.quarter_a(True), layouts.quarter_a(False), layouts.quarter_b(True), layouts.quarter_b(False)]
ALL += [layouts.quarter_c(16), layouts.quarter_c(32), layouts.moved(8, 8, 16), layouts.moved(16, 16, 8), layouts.moved(8, 16, 8)]


@pytest.mark.parametrize("layout", ALL, ids=lambda layout: f"{layout.shape}-{layout.rows.shape}")
def test_each_element_is_held_once(layout: layouts.Layout) -> None:
    assert sorted(layout.target.tolist()) == list(range(layout.shape[0] * layout.shape[1]))
    matrices = np.random.default_rng(0).integers(0, 1 << 16, (3, *layout.shape))
    fragments = layouts.to_fragments(layout, matrices)
    assert (layouts.to_matrix(layout, fragments) == matrices).all()
    lane, element = np.unravel_index(np.arange(layout.target.size), layout.rows.shape)
    assert (fragments[:, lane, element] == matrices[:, layout.rows[lane, element], layout.columns[lane, element]]).all()


def test_an_accumulator_of_halves_is_a_multiplicand() -> None:
    """D of one MMA is A of the next: registers of m16n8 twice are those of A, 16x16."""
    two = layouts.joined(layouts.accumulator(16, 8), layouts.accumulator(16, 8), axis=1)
    a = layouts.multiplicand_a(16, 16, 16)
    assert (two.rows == a.rows).all()
    assert (two.columns == a.columns).all()


def test_four_matrices_of_ldmatrix_are_a_multiplicand() -> None:
    eight = layouts.moved(8, 8, 16)
    left = layouts.joined(eight, eight, axis=0)
    assert (layouts.joined(left, left, axis=1).target == layouts.multiplicand_a(16, 16, 16).target).all()
