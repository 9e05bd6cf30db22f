"""The control flow graph."""

from __future__ import annotations

from sample import function, kernel

from ptxkit.analyses.cfg.graph import Via, control_flow
from ptxkit.analyses.framework.routine import Routine


def edges(routine: Routine) -> list[tuple[int, int, str]]:
    return [(edge.source, edge.target, edge.via.value) for block in control_flow(routine).blocks for edge in block.edges]


class TestControlFlow:
    def test_straight_line(self) -> None:
        flow = control_flow(kernel("mov.u32 %r1, 1; ret;"))

        assert [(block.start, block.end) for block in flow.blocks] == [(0, 2)]
        assert flow.blocks[0].leaves == "return"
        assert not flow.blocks[0].falls_off

    def test_no_instruction(self) -> None:
        flow = control_flow(kernel(""))

        assert flow.blocks == ()
        assert flow.order == ()
        assert flow.reachable == frozenset()

    def test_guarded_branch(self) -> None:
        routine = kernel("@%p1 bra a; mov.u32 %r1, 1; a: ret;")

        assert edges(routine) == [(0, 1, "not taken"), (0, 2, "taken"), (1, 2, "fall")]

    def test_both_ways_to_one_block(self) -> None:
        flow = control_flow(kernel("@%p1 bra a; a: ret;"))

        assert [edge.via for edge in flow.blocks[0].edges] == [Via.NOT_TAKEN, Via.TAKEN]
        assert flow.blocks[0].successors == (1,)
        assert flow.blocks[1].predecessors == (0,)

    def test_uniform_branch_back(self) -> None:
        assert edges(kernel("a: mov.u32 %r1, 1; bra.uni a;")) == [(0, 0, "taken")]

    def test_a_label_nothing_branches_to_starts_no_block(self) -> None:
        assert len(control_flow(kernel("mov.u32 %r1, 1; unused: ret;")).blocks) == 1

    def test_indexed_branch(self) -> None:
        flow = control_flow(kernel("ts: .branchtargets a, b, a; brx.idx %r1, ts; a: ret; b: exit;"))

        assert [(edge.target, edge.indices) for edge in flow.blocks[0].edges] == [(1, (0, 2)), (2, (1,))]
        assert {edge.via for edge in flow.blocks[0].edges} == {Via.INDEXED}

    def test_guarded_indexed_branch(self) -> None:
        assert edges(kernel("ts: .branchtargets a; @%p1 brx.idx %r1, ts; ret; a: ret;")) == [(0, 1, "not taken"), (0, 2, "indexed")]

    def test_guarded_ends(self) -> None:
        for word, leaves in (("ret", "return"), ("exit", "exit"), ("trap", "trap")):
            flow = control_flow(kernel(f"@%p1 {word}; mov.u32 %r1, 1; ret;"))

            assert flow.blocks[0].leaves == leaves
            assert [edge.via for edge in flow.blocks[0].edges] == [Via.NOT_TAKEN]

    def test_running_past_the_end(self) -> None:
        flow = control_flow(kernel("@%p1 bra a; ret; a:"))

        assert flow.blocks[0].falls_off
        assert not flow.blocks[1].falls_off

    def test_last_instruction_falls_off(self) -> None:
        assert control_flow(kernel("mov.u32 %r1, 1;")).blocks[0].falls_off

    def test_call_stays_inside_a_block(self) -> None:
        assert len(control_flow(kernel("call f; ret;", ".func f() { ret; }")).blocks) == 1

    def test_call_that_does_not_return(self) -> None:
        flow = control_flow(kernel("call f; ret;", ".func f() .noreturn { trap; }"))

        assert flow.blocks[0].leaves == "call"
        assert flow.reachable == {0}

    def test_call_through_a_prototype_that_does_not_return(self) -> None:
        assert control_flow(kernel("pt: .callprototype _ () .noreturn; call %d1, (), pt; ret;")).blocks[0].leaves == "call"

    def test_call_through_a_list_none_of_which_returns(self) -> None:
        before = ".func f() .noreturn { trap; }"

        assert control_flow(kernel("ts: .calltargets f; call %d1, (), ts; ret;", before)).blocks[0].leaves == "call"
        assert len(control_flow(kernel("ts: .calltargets f, g; call %d1, (), ts; ret;", before + ".func g() { ret; }")).blocks) == 1

    def test_labels_belong_to_scopes(self) -> None:
        routine = kernel("{ L: mov.u32 %r1, 1; @%p1 bra L; } { L: mov.u32 %r2, 1; @%p2 bra L; } ret;")

        assert (0, 0, "taken") in edges(routine)
        assert (1, 1, "taken") in edges(routine)

    def test_branch_out_of_a_scope(self) -> None:
        assert edges(kernel("{ { @%p1 bra out; } mov.u32 %r1, 1; } out: ret;")) == [(0, 1, "not taken"), (0, 2, "taken"), (1, 2, "fall")]

    def test_unknown_target(self) -> None:
        flow = control_flow(kernel("bra nowhere; ret;"))

        assert len(flow.unknown_targets) == 1
        assert flow.blocks[0].successors == ()

    def test_unreachable_blocks_are_there(self) -> None:
        flow = control_flow(kernel("bra a; mov.u32 %r1, 1; a: ret;"))

        assert len(flow.blocks) == 3
        assert flow.order == (0, 2)

    def test_order_has_each_block_after_those_that_lead_to_it(self) -> None:
        flow = control_flow(kernel("@%p1 bra a; mov.u32 %r1, 1; bra b; a: mov.u32 %r1, 2; b: ret;"))
        place = {block: i for i, block in enumerate(flow.order)}

        assert all(place[block.index] < place[successor] for block in flow.blocks for successor in block.successors)

    def test_ten_thousand_blocks(self) -> None:
        flow = control_flow(kernel("@%p1 bra end; mov.u32 %r1, 1;\n" * 10_000 + "end: ret;"))

        assert len(flow.reachable) == 10_002

    def test_declaration_in_a_loop_of_names(self) -> None:
        routine = function(".func (.reg .b32 r) f() { mov.u32 r, 1; ret; }")

        assert control_flow(routine).block_of == (0, 0)
