"""Results are remembered, and no more is kept alive than the last few."""

from __future__ import annotations

import gc
import weakref

import ptxkit
from ptxkit.memo import KEPT
from ptxkit.names import resolve

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .u32 a; mov.u32 a, 1; ret; }\n"


def test_the_same_object_gets_the_same_result() -> None:
    module = ptxkit.parse(TEXT)

    assert resolve(module) is resolve(module)


def test_modules_are_freed() -> None:
    modules = [ptxkit.parse(TEXT) for _ in range(3 * KEPT)]
    for module in modules:
        resolve(module)
    alive = [weakref.ref(module) for module in modules]
    del module
    modules.clear()
    gc.collect()

    assert sum(reference() is not None for reference in alive) <= KEPT
