"""The call graph."""

from __future__ import annotations

import ptxkit
from ptxkit.analyses.launch.call_graph import callgraph

HEAD = ".version 8.5\n.target sm_80\n.address_size 64\n"


class TestCallGraph:
    def test_direct(self) -> None:
        found = callgraph(ptxkit.parse(HEAD + ".func g(); .func f() { call g; call g; ret; } .entry k() { call f; ret; }"))

        assert found.functions == ("g", "f", "k")
        assert found.edges == {"g": (), "f": ("g",), "k": ("f",)}
        assert found.kernels == {"k"}
        assert found.defined == {"f", "k"}
        assert found.reached_from("k") == {"f", "g"}
        assert found.recursive == ()

    def test_recursion(self) -> None:
        text = ".func h(); .func f() { call f; ret; } .func g() { call h; ret; } .func h() { call g; ret; }"

        assert callgraph(ptxkit.parse(HEAD + text)).recursive == (("h", "g"), ("f",))

    def test_list_of_targets(self) -> None:
        text = ".func f() { ret; } .func g() { ret; } .entry k() { .reg .b64 d; ts: .calltargets f, g; call d, (), ts; ret; }"
        (call,) = callgraph(ptxkit.parse(HEAD + text)).calls

        assert (call.callees, call.is_indirect, call.is_open) == (("f", "g"), True, False)

    def test_prototype_finds_functions_whose_address_is_taken(self) -> None:
        text = """.func f(.param .b32 a) { ret; } .func g(.param .b32 a) { ret; } .func h(.param .b64 a) { ret; }
        .global .u64 table[2] = {f, h};
        .entry k() { .reg .b64 d; .reg .b32 r; pt: .callprototype _ (.param .b32 _); { .param .b32 p; call d, (p), pt; } ret; }"""
        (call,) = callgraph(ptxkit.parse(HEAD + text)).calls

        assert (call.callees, call.is_indirect, call.is_open) == (("f",), True, True)

    def test_address_taken_in_a_function(self) -> None:
        text = ".func f() { ret; } .entry k() { .reg .b64 d; mov.u64 d, f; pt: .callprototype _ (); call d, (), pt; ret; }"

        assert callgraph(ptxkit.parse(HEAD + text)).edges["k"] == ("f",)

    def test_call_of_what_is_not_there(self) -> None:
        (call,) = callgraph(ptxkit.parse(HEAD + ".entry k() { call nobody; ret; }")).calls

        assert (call.callees, call.is_open) == ((), True)

    def test_no_functions(self) -> None:
        assert callgraph(ptxkit.parse(HEAD)).functions == ()
