"""From where functions are called, and by which kernels."""

from __future__ import annotations

import pytest

import ptxkit
from ptxkit.analyses import Routine, routines
from ptxkit.analyses.launch.callers import calls_of, is_recursive, kernels_of, module_calls

HEAD = ".version 8.5\n.target sm_80\n.address_size 64\n"
DIAMOND = ".func leaf() { ret; } .func a() { call leaf; ret; } .func b() { call leaf; call leaf; ret; } .entry k() { call a; call b; ret; }"
RING = """.func a(); .func b(); .func c() { call a; ret; } .func a() { call b; ret; } .func b() { call c; ret; }
.func out() { ret; } .entry k() { call a; call out; ret; }"""


def functions(text: str) -> dict[str, Routine]:
    return {routine.name: routine for routine in routines(ptxkit.parse(HEAD + text))}


class TestCalls:
    def test_two_callers_of_which_one_calls_twice(self) -> None:
        sites = calls_of(functions(DIAMOND)["leaf"])

        assert sites is not None
        assert [(caller.name, i) for caller, i in sites] == [("a", 0), ("b", 0), ("b", 1)]

    def test_a_kernel_is_called_by_nobody(self) -> None:
        assert calls_of(functions(DIAMOND)["k"]) == ()

    @pytest.mark.parametrize(
        "text",
        [
            # another module may call it
            ".visible .func f() { ret; } .entry k() { call f; ret; }",
            # through a register
            ".func f() { ret; } .entry k() { .reg .b64 d; mov.u64 d, f; pt: .callprototype _ (); call d, (), pt; ret; }",
        ],
    )
    def test_unknown_callers(self, text: str) -> None:
        routine = functions(text)["f"]

        assert calls_of(routine) is None
        assert kernels_of(routine) is None


class TestKernels:
    def test_of_itself(self) -> None:
        kernel = functions(DIAMOND)["k"]

        assert kernels_of(kernel) == (kernel,)

    def test_through_both_sides_of_a_diamond_once(self) -> None:
        found = functions(DIAMOND)

        assert kernels_of(found["leaf"]) == (found["k"],)

    def test_of_two(self) -> None:
        found = functions(".func f() { ret; } .entry k() { call f; ret; } .entry l() { call f; ret; } .entry other() { ret; }")

        assert kernels_of(found["f"]) == (found["k"], found["l"])

    def test_of_what_nobody_calls(self) -> None:
        assert kernels_of(functions(".func f() { ret; } .entry k() { ret; }")["f"]) == ()

    def test_through_a_ring_of_three(self) -> None:
        found = functions(RING)

        assert [kernels_of(found[name]) for name in "abc"] == [(found["k"],)] * 3


def test_recursion_is_a_circle_of_calls() -> None:
    found = functions(RING)

    assert {name for name, routine in found.items() if is_recursive(routine)} == {"a", "b", "c"}


def test_the_call_graph_of_the_module() -> None:
    found = functions(RING)
    graph = module_calls(found["c"])

    assert graph.edges == {"a": ("b",), "b": ("c",), "c": ("a",), "out": (), "k": ("a", "out")}
    assert module_calls(found["c"]) is graph
