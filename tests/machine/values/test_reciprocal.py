"""The approximate reciprocal against what a GPU gave (H100 80GB HBM3, driver 580.159.04, 2026-11-26, `benchmarks/gpu/filters.py`)."""

from __future__ import annotations

import hashlib

import numpy as np

from ptxkit.machine.values.reciprocal import reciprocal


def test_every_significand():
    operands = np.arange(0x3F800000, 0x40000000, dtype=np.uint32).view(np.float32)
    found = reciprocal(operands)
    assert hashlib.blake2b(found.view(np.uint32).tobytes(), digest_size=12).hexdigest() == "8bad0f3c27af7796dd6ee169"
    assert np.abs(found * operands.astype(np.float64) - 1).max() < 2.0**-23


def test_exponents_and_signs():
    three = reciprocal(np.float32(3))
    exponents = np.arange(-125, 125)
    scaled = reciprocal(np.ldexp(np.float32(-3), exponents))
    assert (scaled == np.ldexp(-three, -exponents)).all()


def test_special_operands():
    given = np.array([0, -0.0, 1e-40, -1e-40, np.inf, -np.inf, 2.0**126, 1.5 * 2.0**126, -(2.0**127)], np.float32)
    expected = np.array([np.inf, -np.inf, np.inf, -np.inf, 0, -0.0, 2.0**-126, 0, -0.0], np.float32)
    assert reciprocal(given).view(np.uint32).tolist() == expected.view(np.uint32).tolist()
    assert reciprocal(np.array([np.nan, 2], np.float32)).view(np.uint32).tolist() == [0x7FFFFFFF, 0x3F000000]
