"""Results are remembered, and no more is kept alive than the last few."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptxkit
from ptxkit.machine.monitors.shadow import Shadow
from ptxkit.memo import DUE, KEPT, MUCH, collect_new, collect_when_due, collector_paused, expression, overlook_new
from ptxkit.names import resolve

TEXT = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .u32 a; mov.u32 a, 1; ret; }\n"


@pytest.fixture(autouse=True)
def a_library_s_collector() -> Iterator[None]:
    """As Python starts: a test of the command line may have run in this process, and that collects less often. What earlier tests have
    left is put aside, since collecting it takes longer than the test."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.freeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


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


KERNELS = Path(__file__).parent.parent / "fixtures" / "kernels"


@pytest.mark.parametrize("name", ["calls.sm_80", "mma_gemm.sm_90a", "debug_groups.sm_90a"])
def test_what_rules_find_out_goes_without_the_collector(name: str) -> None:
    """Facts have no cycles: over many files, collecting them would take a tenth of the time."""
    text = (KERNELS / f"{name}.ptx").read_text("utf-8")
    # what is imported and read of the table for the first time may leave some
    ptxkit.analyses.lint(ptxkit.parse(text), run=False)
    gc.collect()
    with collector_paused():
        ptxkit.analyses.lint(ptxkit.parse(text), run=False)

        assert not gc.collect()


@pytest.mark.parametrize("name", ["wgmma_gemm.sm_90a", "calls.sm_80", "cluster.sm_90a"])
def test_what_runs_took_most_memory_for_goes_without_the_collector(name: str) -> None:
    """A program has cycles, but what monitors knew of every byte goes at once: the command collects seldom."""
    text = (KERNELS / f"{name}.ptx").read_text("utf-8")
    gc.collect()
    with collector_paused():
        ptxkit.analyses.lint(ptxkit.parse(text))

        assert not [one for one in gc.get_objects() if type(one) is Shadow]


def test_who_parses_much_gets_rid_of_garbage() -> None:
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(5000):
        cycle: list[object] = []
        cycle.append([cycle])
        ptxkit.parse("ret;")

    assert len(gc.get_objects()) - before < 5000


def test_collecting_by_hand() -> None:
    gc.collect()
    with collector_paused():
        for _ in range(DUE):
            cycle: list[object] = []
            cycle.append(cycle)
        many = gc.get_count()[0]
        collect_when_due()
        assert gc.get_count()[0] < many / 2


def test_collecting_what_is_new() -> None:
    gc.collect()
    with collector_paused():
        for number in range(2):
            alive = [weakref.ref(made) for made in [_Cycle() for _ in range(MUCH if number else 1)]]
            old = [_Cycle() for _ in range(MUCH)]
            collect_new()

            assert not any(one() for one in alive)
            assert old


def test_collecting_what_has_survived() -> None:
    gc.collect()
    with collector_paused():
        cycles = [_Cycle() for _ in range(MUCH + 1)]
        alive = [weakref.ref(made) for made in cycles]
        collect_new()
        del cycles
        collect_new()

        assert any(one() for one in alive)
        collect_new(age=1)
        assert not any(one() for one in alive)


def test_what_is_still_used_is_no_reason_to_collect() -> None:
    gc.collect()
    with collector_paused():
        alive = [weakref.ref(made) for made in [_Cycle() for _ in range(MUCH + 1)]]
        overlook_new()
        collect_new()
        assert any(one() for one in alive)

        more = [_Cycle() for _ in range(MUCH + 1)]
        collect_new()
        assert more
        assert not any(one() for one in alive)


class _Cycle:
    def __init__(self) -> None:
        self.own = self


def test_an_expression_is_compiled_when_it_is_used() -> None:
    broken, word = expression("("), expression(r"\w+", re.ASCII)

    assert word.findall("a b") == ["a", "b"]
    assert (word.pattern, word.flags) == (r"\w+", re.ASCII)
    assert vars(word)["findall"] == re.compile(r"\w+", re.ASCII).findall
    with pytest.raises(re.error):
        broken.match("(")
