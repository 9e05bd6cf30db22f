"""The edit engine: each kind of edit, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from invariants import broken

import ptxkit
from ptxkit.analyses import control_flow, routines
from ptxkit.analyses.cfg.graph import Via
from ptxkit.rewriters import (
    AddParameter,
    AddToModule,
    After,
    AtEntry,
    AtExits,
    Before,
    Declare,
    Edit,
    OnEdge,
    Refused,
    Replace,
    Rewrite,
    Site,
    apply,
    around,
    fresh,
    remove,
    select,
)
from ptxkit.rewriters.engine import edits as engine
from ptxkit.rewriters.engine import preserving
from ptxkit.rewriters.engine.code import Code
from ptxkit.rewriters.engine.points import Points
from ptxkit.rewriters.engine.preserving import Checks
from ptxkit.rewriters.strip import strip

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, parameters: str = "(\n\t.param .u64 k_0\n)") -> ptxkit.Module:
    return ptxkit.parse(
        f"{HEAD}.visible .entry k{parameters}\n{{\n\t.reg .pred %p<4>;\n\t.reg .b32 %r<9>;\n\t.reg .b64 %rd<4>;\n{body}}}\n"
    )


def site(module: ptxkit.Module, pattern: str, number: int = 0) -> Site:
    return list(select(module, pattern))[number]


def done(module: ptxkit.Module, *edits: Edit) -> Rewrite:
    """The edits applied: they must break nothing, read back the same, come out again, and make no syntax error."""
    rewrite = apply(module, edits, "test")
    again = ptxkit.parse(rewrite.text)
    assert again == rewrite.module
    assert again.diagnostics == module.diagnostics
    assert broken(module, rewrite.module) == []
    assert strip(again).text == module.text
    assert strip(rewrite.module).text == module.text
    return rewrite


def refusal(module: ptxkit.Module, *edits: Edit) -> str:
    """The reason why the edits are refused."""
    with pytest.raises(Refused) as caught:
        apply(module, edits, "test")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message and diagnostic.span.line > 0
    return diagnostic.name


STRAIGHT = kernel("\tmov.u32 %r1, %tid.x;\n\tadd.u32 %r2, %r1, 1; // one\n\t@%p1 ret;\n\tadd.u32 %r3, %r2, 1;\n\tret;\n")


class TestPoints:
    def test_before(self) -> None:
        rewrite = done(STRAIGHT, Before(site(STRAIGHT, "add"), "mov.u32 %r5, 0;"))

        assert "%tid.x;\n\t/*ptxkit+*/ mov.u32 %r5, 0;\n\tadd.u32 %r2" in rewrite.text

    def test_after_keeps_the_comment_with_the_line(self) -> None:
        rewrite = done(STRAIGHT, After(site(STRAIGHT, "add"), "mov.u32 %r5, 0;"))

        assert "add.u32 %r2, %r1, 1;\n\t/*ptxkit+*/ mov.u32 %r5, 0; // one\n" in rewrite.text

    def test_around_and_in_order(self) -> None:
        at = site(STRAIGHT, "add", 1)
        text = done(STRAIGHT, *around(at, "mov.u32 %r5, 0;", "mov.u32 %r5, 1;"), Before(at, "mov.u32 %r5, 2;")).text

        assert text.index("%r5, 0;") < text.index("%r5, 2;") < text.index("add.u32 %r3") < text.index("%r5, 1;")

    def test_untouched_statements_are_shared(self) -> None:
        rewrite = done(STRAIGHT, Before(site(STRAIGHT, "add"), "mov.u32 %r5, 0;"))
        old = {id(statement) for _, statement in STRAIGHT.functions[0].statements()}

        assert sum(id(statement) not in old for _, statement in rewrite.module.functions[0].statements()) == 1

    def test_manifest_says_where(self) -> None:
        rewrite = done(STRAIGHT, Before(site(STRAIGHT, "add", 1), "mov.u32 %r5, 0;"))

        assert rewrite.manifest.as_json()["probes"] == [{"function": "k", "instruction": 3, "place": "before"}]

    def test_code_in_braces_with_its_own_registers(self) -> None:
        name = fresh(STRAIGHT).register("t")
        done(STRAIGHT, Before(site(STRAIGHT, "add"), f"{{ .reg .b32 {name}; mov.u32 {name}, %r1; }}"))

    def test_unmarked(self) -> None:
        rewrite = apply(STRAIGHT, [Before(site(STRAIGHT, "add"), "mov.u32 %r5, 0;")], "test", marked=False)

        assert "ptxkit" not in rewrite.text

    def test_never_reached(self) -> None:
        assert refusal(STRAIGHT, After(site(STRAIGHT, "ret", 1), "mov.u32 %r5, 0;")) == "never-reached"

    def test_partly_goes_on(self) -> None:
        rewrite = apply(STRAIGHT, [After(at, "mov.u32 %r5, 0;") for at in select(STRAIGHT, "ret")], "test", partly=True)

        assert [one.name for one in rewrite.refusals] == ["never-reached"]
        assert len(rewrite.manifest.probes) == 1

    def test_bad_code(self) -> None:
        with pytest.raises(ValueError, match="mov"):
            apply(STRAIGHT, [Before(site(STRAIGHT, "add"), "mov.u32 %r5, 0")], "test")

    def test_another_module(self) -> None:
        other = kernel("\tret;\n")
        with pytest.raises(ValueError, match="another module"):
            apply(STRAIGHT, [Before(site(other, "ret"), "mov.u32 %r5, 0;")], "test")


class TestReplacing:
    def test_replace_and_bring_back(self) -> None:
        text = done(STRAIGHT, Replace(site(STRAIGHT, "add"), "sub.u32 %r2, %r1, 1;")).text

        assert "/*ptxkit= add.u32 %r2, %r1, 1;*/ sub.u32 %r2, %r1, 1; // one" in text

    def test_remove_and_bring_back(self) -> None:
        assert "/*ptxkit= add.u32 %r2, %r1, 1;*/ {} // one" in done(STRAIGHT, remove(site(STRAIGHT, "add"))).text

    def test_comments_in_what_is_replaced(self) -> None:
        module = kernel("\tadd.u32 %r2, /* a *~/ */ %r1, 1;\n\tret;\n")
        done(module, remove(site(module, "add")))

    def test_control_flow_stays(self) -> None:
        assert refusal(STRAIGHT, remove(site(STRAIGHT, "ret"))) == "flow-changed"


class TestEntry:
    def test_first_of_all(self) -> None:
        assert (
            "%rd<4>;\n\t/*ptxkit+*/ mov.u32 %r5, 0;\n\tmov.u32 %r1"
            in done(STRAIGHT, AtEntry(routines(STRAIGHT)[0], "mov.u32 %r5, 0;")).text
        )

    def test_before_a_loop_that_starts_at_once(self) -> None:
        module = kernel('L:\n\t.pragma "nounroll";\n\tadd.u32 %r2, %r1, 1;\n\t@%p1 bra L;\n\tret;\n')
        text = done(module, AtEntry(routines(module)[0], "mov.u32 %r5, 0;")).text

        assert text.index("%r5") < text.index("L:")

    def test_in_a_scope_that_starts_at_once(self) -> None:
        module = kernel("\t{\n\t.reg .b32 t;\nL:\n\tadd.u32 t, %r1, 1;\n\t@%p1 bra L;\n\t}\n\tret;\n")
        text = done(module, AtEntry(routines(module)[0], "mov.u32 %r5, 0;")).text

        assert text.index("mov.u32 %r5") < text.index("\t{\n\t.reg .b32 t")


class TestExits:
    def test_every_way_out_under_its_guard(self) -> None:
        module = kernel("\t@%p1 ret;\n\t@!%p2 exit;\n\t@%p3 trap;\n\tret;\n")
        text = done(module, AtExits(routines(module)[0], "add.u32 %r5, %r5, 1;")).text

        assert text.count("/*ptxkit+*/") == 3
        assert "@%p1 add.u32 %r5, %r5, 1;\n\t@%p1 ret;" in text
        assert "@!%p2 add.u32 %r5, %r5, 1;\n\t@!%p2 exit;" in text
        assert "@%p3 add" not in text

    def test_trap_if_asked_for(self) -> None:
        module = kernel("\t@%p3 trap;\n\tret;\n")

        assert "@%p3 add" in done(module, AtExits(routines(module)[0], "add.u32 %r5, %r5, 1;", ("trap",))).text

    def test_code_with_guards_of_its_own(self) -> None:
        module = kernel("\t@!%p1 ret;\n\tret;\n")
        text = done(module, AtExits(routines(module)[0], "@%p2 add.u32 %r5, %r5, 1;")).text

        assert "mov.pred %pk_guard, %p2; @%p1 mov.pred %pk_guard, 0; @%pk_guard add.u32" in text

    def test_falling_off_the_end(self) -> None:
        module = kernel("\tadd.u32 %r2, %r1, 1;\n")

        assert done(module, AtExits(routines(module)[0], "mov.u32 %r5, 0;")).text.endswith("mov.u32 %r5, 0;\n}\n")


BRANCHES = kernel(
    "\t@%p1 bra A;\n\tadd.u32 %r1, %r1, 1;\nA:\n\tadd.u32 %r2, %r2, 1;\n\t@%p2 bra A;\n"
    "\tbrx.idx %r1, T;\nT: .branchtargets A, B, B;\nB:\n\tret;\n"
)


class TestEdges:
    def edge(self, module: ptxkit.Module, source: int, via: Via, target: int) -> Edit:
        routine = routines(module)[0]
        (edge,) = [edge for edge in control_flow(routine).blocks[source].edges if edge.via is via and edge.target == target]
        return OnEdge(routine, edge, "add.u32 %r5, %r5, 1;")

    def test_straight_on(self) -> None:
        text = done(BRANCHES, self.edge(BRANCHES, 0, Via.NOT_TAKEN, 1)).text

        assert "@%p1 bra A;\n\t/*ptxkit+*/ add.u32 %r5" in text

    def test_taken(self) -> None:
        text = done(BRANCHES, self.edge(BRANCHES, 2, Via.TAKEN, 2)).text

        assert "/*ptxkit= @%p2 bra A;*/ @%p2 bra $pk_edge0;" in text
        assert text.endswith("\tret;\n\t/*ptxkit+*/ $pk_edge0:\n\t/*ptxkit+*/ add.u32 %r5, %r5, 1;\n\t/*ptxkit+*/ bra A;\n}\n")

    def test_taken_and_the_graph_is_the_same_with_one_more_block(self) -> None:
        new = done(BRANCHES, self.edge(BRANCHES, 2, Via.TAKEN, 2)).module
        before, after = (control_flow(routines(module)[0]) for module in (BRANCHES, new))

        assert len(after.blocks) == len(before.blocks) + 1
        assert not after.unknown_targets
        assert after.blocks[len(before.blocks)].successors == (2,)

    def test_indexed(self) -> None:
        text = done(BRANCHES, self.edge(BRANCHES, 3, Via.INDEXED, 4)).text

        assert ".branchtargets A, $pk_edge0, $pk_edge0;" in text

    def test_out_of_a_scope(self) -> None:
        module = kernel("\t{\n\t@%p1 bra L;\n\tadd.u32 %r1, %r1, 1;\n\t}\nL:\n\tret;\n")
        done(module, self.edge(module, 0, Via.TAKEN, 2))

    def test_in_a_scope_that_is_run_through(self) -> None:
        module = kernel("\t{\nL:\n\tadd.u32 %r1, %r1, 1;\n\t@%p1 bra L;\n\t}\n\tret;\n")
        text = done(module, self.edge(module, 0, Via.TAKEN, 0)).text

        assert text.index("bra $pk_behind1") < text.index("$pk_edge0:") < text.index("$pk_behind1:") < text.index("}\n\tret")

    def test_all_edges_at_once(self) -> None:
        routine = routines(BRANCHES)[0]
        edges = [edge for block in control_flow(routine).blocks for edge in block.edges if edge.via is not Via.INDEXED]
        done(BRANCHES, *[OnEdge(routine, edge, "add.u32 %r5, %r5, 1;") for edge in edges])

    def test_shared_list(self) -> None:
        module = kernel("\t@%p1 brx.idx %r1, T;\n\tbrx.idx %r2, T;\nT: .branchtargets B, C;\nB:\n\tret;\nC:\n\tret;\n")

        assert refusal(module, self.edge(module, 0, Via.INDEXED, 2)) == "shared-targets"


class TestModule:
    def test_parameter(self) -> None:
        module = kernel("\tret;\n", "(\n\t.param .u32 a,\n\t.param .align 16 .b8 b[20]\n)")
        rewrite = done(module, AddParameter("k", "__pk_data"))

        assert ".param .align 16 .b8 b[20],\n\t.param .u64 __pk_data\n)" in rewrite.text
        assert rewrite.manifest.arguments == (("k", "__pk_data", ".u64", 40, 8),)

    @pytest.mark.parametrize("parameters", ["", "()", "( )"])
    def test_first_parameter(self, parameters: str) -> None:
        module = kernel("\tret;\n", parameters)
        rewrite = done(module, AddParameter("k", "__pk_data", ".u32"))

        assert [p.name for p in rewrite.module.functions[0].header.parameters] == ["__pk_data"]
        assert rewrite.manifest.arguments[0].offset == 0

    def test_several_parameters(self) -> None:
        module = kernel("\tret;\n")
        rewrite = done(module, AddParameter("k", "__pk_a", ".u32"), AddParameter("k", "__pk_b"))

        assert [argument.offset for argument in rewrite.manifest.arguments] == [8, 16]

    def test_device_functions_keep_their_signature(self) -> None:
        module = ptxkit.parse(HEAD + ".func f(.param .b32 a)\n{\n\tret;\n}\n")

        assert refusal(module, AddParameter("f", "__pk_a")) == "signature"

    def test_too_many_parameters(self) -> None:
        module = kernel("\tret;\n", "(.param .align 8 .b8 a[4350])")

        assert refusal(module, AddParameter("k", "__pk_a")) == "signature"

    def test_variable_and_function_before_the_first_function(self) -> None:
        module = kernel("\tret;\n")
        code = ".visible .global .align 8 .b64 __pk_buffer[4];\n.func __pk_f() { ret; }"
        rewrite = done(module, AddToModule(code), Before(site(module, "ret"), "mov.u64 %rd1, __pk_buffer; call __pk_f;"))

        assert rewrite.text.index("__pk_buffer[4]") < rewrite.text.index(".func __pk_f") < rewrite.text.index(".entry k")
        assert rewrite.manifest.variables == (("__pk_buffer", ".global", 32),)

    def test_registers(self) -> None:
        routine = routines(STRAIGHT)[0]
        name = fresh(STRAIGHT).register("count")
        done(STRAIGHT, Declare(routine, f".reg .b32 {name};"), AtEntry(routine, f"mov.b32 {name}, 0;"))

    def test_undeclared(self) -> None:
        assert refusal(STRAIGHT, Before(site(STRAIGHT, "add"), "mov.b32 %nowhere, 0;")) == "undeclared-name"


class TestFresh:
    def test_avoids_text_that_is_there(self) -> None:
        module = ptxkit.parse(HEAD + ".entry k() { .reg .b32 %pk_a<3>; { .reg .b32 $pk1_b; } ret; }")

        assert fresh(module).register("a") == "%pk2_a"
        assert fresh(module).label("loop", 3) == "$pk2_loop3"
        assert fresh(module).symbol("buffer") == "__pk2_buffer"


SCOPES = kernel("\t{\n\t.reg .b32 %x;\n\tmov.u32 %x, 1;\n\tadd.u32 %r1, %r1, %x;\n\t}\n\tret;\n")
CARRY = kernel("\tadd.cc.u32 %r1, %r2, %r3;\n\taddc.u32 %r4, %r5, %r6;\n\tret;\n")
CALL = ptxkit.parse(
    HEAD + ".func (.param .b32 r) f(.param .b32 a)\n{\n\tret;\n}\n.visible .entry k()\n{\n\t.reg .pred %p<2>;\n\t.reg .b32 %r<9>;\n"
    "\t{\n\t.param .b32 a0;\n\t.param .b32 r0;\n\tst.param.b32 [a0], %r1;\n\tcall (r0), f, (a0);\n"
    "\tld.param.b32 %r2, [r0];\n\t}\n\tret;\n}\n"
)
LINES = kernel("\t.loc 1 5 3\n\tadd.u32 %r1, %r1, 1;\n\t.loc 1 6 3\n\tadd.u32 %r2, %r2, 1;\n\tret;\n")
LOOP = kernel('L:\n\t.pragma "nounroll";\n\t.loc 1 5 3\n\tadd.u32 %r1, %r1, 1;\n\t@%p1 bra L;\n\tret;\n')
LOAD = kernel('\t.loc 1 5 3\n\t.pragma "used_bytes_mask 15";\n\tld.global.v2.b32 {%r1, %r2}, [%rd1];\n\tret;\n')
WGMMA = kernel(
    "\twgmma.fence.sync.aligned;\n\tadd.u32 %r8, %r8, 1;\n"
    "\twgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1;\n"
    "\twgmma.commit_group.sync.aligned;\n\tadd.u32 %r7, %r7, 1;\n\twgmma.wait_group.sync.aligned 0;\n\tadd.u32 %r6, %r6, 1;\n\tret;\n"
).text.replace(".reg .b64", ".reg .f32 %f<4>;\n\t.reg .b64")
WGMMA_MODULE = ptxkit.parse(WGMMA)


class TestRefusals:
    def test_name_that_an_inner_scope_has(self) -> None:
        routine = routines(SCOPES)[0]

        assert refusal(SCOPES, Declare(routine, ".reg .b32 %x;")) == "name-collision"
        assert refusal(SCOPES, Declare(routine, ".reg .b32 %r4;")) == "name-collision"

    def test_name_that_a_probe_hides(self) -> None:
        at = site(SCOPES, "add")

        assert refusal(SCOPES, Before(at, "{ .reg .b32 %x; mov.b32 %x, %r1; }")) == "name-collision"

    @pytest.mark.parametrize(
        "edit", [lambda: After(site(CARRY, "add.cc"), "sub.cc.u32 %r7, %r7, 1;"), lambda: remove(site(CARRY, "add.cc"))]
    )
    def test_carry(self, edit: Callable[[], Edit]) -> None:
        assert refusal(CARRY, edit()) == "carry-chain-cut"

    def test_carry_is_free_elsewhere(self) -> None:
        done(CARRY, Before(site(CARRY, "add.cc"), "sub.cc.u32 %r7, %r7, 1;"), After(site(CARRY, "add.cc"), "sub.u32 %r7, %r7, 1;"))

    @pytest.mark.parametrize(
        "edit",
        [
            lambda: After(site(CALL, "st.param"), "mov.u32 %r5, 0;"),
            lambda: Before(site(CALL, "call"), "mov.u32 %r5, 0;"),
            lambda: After(site(CALL, "call"), "mov.u32 %r5, 0;"),
            lambda: Before(site(CALL, "ld.param"), "mov.u32 %r5, 0;"),
            lambda: remove(site(CALL, "st.param")),
            lambda: remove(site(CALL, "call")),
        ],
    )
    def test_call_sequence(self, edit: Callable[[], Edit]) -> None:
        assert refusal(CALL, edit()) == "call-sequence-split"

    def test_around_a_call_sequence(self) -> None:
        done(CALL, Before(site(CALL, "st.param"), "mov.u32 %r5, 0;"), After(site(CALL, "ld.param"), "mov.u32 %r5, 0;"))

    def test_loc_stays_with_its_instruction(self) -> None:
        text = done(LINES, *[Before(at, "mov.u32 %r5, 0;") for at in select(LINES, "add")]).text

        assert "mov.u32 %r5, 0;\n\t.loc 1 5 3\n\tadd.u32 %r1" in text

    def test_code_with_a_loc(self) -> None:
        assert refusal(LINES, Before(site(LINES, "add"), ".loc 1 99 1\nmov.u32 %r5, 0;")) == "loc-moved"

    def test_behind_the_pragma_of_a_loop(self) -> None:
        text = done(LOOP, Before(site(LOOP, "add"), "mov.u32 %r5, 0;")).text

        assert '.pragma "nounroll";\n\t/*ptxkit+*/ mov.u32 %r5, 0;\n\t.loc 1 5 3\n\tadd' in text

    def test_label_between_a_pragma_and_its_loop(self) -> None:
        code = "@%p2 bra $here; mov.u32 %r5, 0; $here:"

        assert refusal(LOOP, Before(site(LOOP, "add"), code, converged=True)) == "pragma-split"

    def test_before_the_pragma_of_a_load(self) -> None:
        text = done(LOAD, Before(site(LOAD, "ld"), "mov.u32 %r5, 0;")).text

        assert text.index("mov.u32 %r5") < text.index(".loc 1 5 3") < text.index(".pragma")
        assert refusal(LOAD, remove(site(LOAD, "ld"))) == "pragma-split"

    def test_wgmma_accumulator(self) -> None:
        at = site(WGMMA_MODULE, "add", 1)

        assert refusal(WGMMA_MODULE, Before(at, "mov.b32 %r5, %f1;")) == "accumulator-in-flight"

    def test_wgmma_group(self) -> None:
        at = site(WGMMA_MODULE, "add")

        assert refusal(WGMMA_MODULE, Before(at, "wgmma.fence.sync.aligned;", converged=True)) == "wgmma-group-split"
        assert refusal(WGMMA_MODULE, remove(site(WGMMA_MODULE, "wgmma.commit_group"))) == "wgmma-group-split"

    def test_wgmma_takes_harmless_code_and_any_after_the_wait(self) -> None:
        done(WGMMA_MODULE, *[Before(at, "mov.u32 %r5, 0;") for at in select(WGMMA_MODULE, "wgmma")])
        done(WGMMA_MODULE, Before(site(WGMMA_MODULE, "add", 2), "mov.b32 %r5, %f1;"))

    def test_aligned_code(self) -> None:
        module = kernel("\tbar.sync 0;\n\tret;\n")

        assert refusal(module, Before(site(module, "ret"), "bar.sync 0;")) == "not-converged"
        assert refusal(module, Before(site(module, "ret"), "@%p1 bra $a; mov.u32 %r5, 0; $a:")) == "divergent-code"
        done(module, Before(site(module, "ret"), "bar.sync 0;", converged=True))

    def test_leaving(self) -> None:
        assert refusal(STRAIGHT, Before(site(STRAIGHT, "add"), "@%p1 exit;")) == "leaves"


def no_points(routine: object) -> object:
    """As if nothing were forbidden anywhere."""
    count = len(routine.instructions)  # type: ignore[attr-defined]
    return Points((-1,) * count, frozenset(), frozenset(), {}, frozenset(), -1)


def unchecked_names(self: object, *_: object) -> None:
    return None


class TestPlantedFaults:
    """With a fault planted in the engine, what comes out is broken, and the second route finds it: the laws do not hold by chance."""

    def broken(self, module: ptxkit.Module, *edits: Edit) -> list[str]:
        return broken(module, apply(module, edits, "test").module)

    def test_name_collision_in_an_inner_scope(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Checks, "_names", unchecked_names)
        monkeypatch.setattr(Checks, "taken", unchecked_names)
        inner = kernel("\t{\n\tmov.u32 %r1, 1;\n\tadd.u32 %r1, %r1, %r2;\n\t}\n\tret;\n")

        assert self.broken(inner, Before(site(inner, "mov"), ".reg .b32 %r2;"))

    def test_carry_chain_cut(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preserving, "points", no_points)

        assert self.broken(CARRY, After(site(CARRY, "add.cc"), "sub.cc.u32 %r7, %r7, 1;"))

    def test_call_sequence_split(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preserving, "points", no_points)

        assert self.broken(CALL, Before(site(CALL, "call"), "mov.u32 %r5, 0;"))
        assert self.broken(CALL, After(site(CALL, "call"), "mov.u32 %r5, 0;"))

    def test_loc_moved(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "before", lambda children, at: at)

        assert self.broken(LINES, Before(site(LINES, "add"), "mov.u32 %r5, 0;"))

    def test_code_before_what_a_loc_of_its_own_covers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def unchecked(self: object, routine: object, path: object, found: Code, *_: object) -> None:
            return None

        monkeypatch.setattr(Checks, "code", unchecked)

        assert self.broken(LINES, After(site(LINES, "add"), ".loc 1 99 1\nmov.u32 %r5, 0;")) == []
        assert self.broken(LINES, After(site(LINES, "add", 1), ".loc 1 99 1\nmov.u32 %r5, 0;"))

    def test_label_between_a_pragma_and_its_loop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(preserving, "is_block_pragma", lambda statement: False)

        assert self.broken(LOOP, Before(site(LOOP, "add"), "@%p2 bra $here; $here:", converged=True))

    def test_code_between_a_pragma_and_its_load(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "before", lambda children, at: at)

        assert self.broken(LOAD, Before(site(LOAD, "ld"), "mov.u32 %r5, 0;"))
