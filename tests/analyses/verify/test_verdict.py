"""What is verified, what is refuted, and what is left undecided, with the reason."""

from __future__ import annotations

import attrs
import pytest
from sample import HEAD

import ptxkit
from ptxkit.analyses.execution.attempt import Runner
from ptxkit.analyses.execution.contents import Contents
from ptxkit.analyses.execution.launch import Given, Launch, Variable
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.execution.parameters import parameters, variables
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.verify.verdict import REFUTED, UNDECIDED, VERIFIED, Verdict, verify
from ptxkit.cli._launching import Options, of_options

REGISTERS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .shared .align 8 .b64 bar[2]; .shared .align 16 .b8 data[512];"
START = "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra READY; INITS READY: bar.sync 0;"
ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"
ELEMENT = "ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;"
FUNCTION = ".extern .func (.reg .b32 %v) f(.reg .b32 %p);\n"
EXCHANGE = """
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r4, %r3, %r2; xor.b32 %r5, %r2, 128; add.u32 %r5, %r3, %r5;
    st.shared.u32 [%r4], %r1; BARRIER ld.shared.u32 %r6, [%r5];
"""


def verdict(
    body: str,
    threads: int = 64,
    declared: str = ".param .u32 n",
    given: dict[str, int] | None = None,
    grid: int = 1,
    module_level: str = "",
    budget: float = 20.0,
) -> Verdict:
    text = f"{HEAD}{module_level}.visible .entry k({declared})\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
    module = ptxkit.parse(text)
    kernel = next(one for one in routines(module) if one.name == "k")
    known = parameters(kernel)
    arguments = tuple([_number(given[one.name]) if given and one.name in given else one.made_up(threads * grid) for one in known])
    launch = Launch("k", (grid, 1, 1), (threads, 1, 1), arguments)
    rest = tuple([Variable(one.name, one.made_up(threads)) for one in variables(kernel)])
    return verify(loaded(module), attrs.evolve(launch, variables=rest), [one.name for one in known], budget)


def _number(value: int) -> Given:
    return Given(lambda: value)


def wait(parity: object, label: str, at: str = "bar") -> str:
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p2, [{at}], {parity}; @!%p2 bra {label};"


def start(*counts: int) -> str:
    return START.replace("INITS", " ".join(f"mbarrier.init.shared.b64 [bar+{8 * place}], {count};" for place, count in enumerate(counts)))


class TestRaces:
    @pytest.mark.parametrize(("barrier", "outcome"), [("", REFUTED), ("bar.sync 0;", VERIFIED)])
    def test_in_shared_memory(self, barrier: str, outcome: str) -> None:
        found = verdict(EXCHANGE.replace("BARRIER", barrier))

        assert found.outcome == outcome
        assert (found.covered["shared"], found.covered["barriers"]) == (128, 64 if barrier else 0)

    @pytest.mark.parametrize(("store", "outcome"), [("[%d1], %r1", REFUTED), ("[%d3], %r1", VERIFIED)])
    def test_in_global_memory(self, store: str, outcome: str) -> None:
        assert verdict(f"{ELEMENT} st.global.u32 {store};", declared=".param .u64 a").outcome == outcome

    def test_a_flag_that_all_set_is_a_note(self) -> None:
        found = verdict("ld.param.u64 %d1, [a]; st.global.u32 [%d1], 1;", declared=".param .u64 a")

        assert (found.outcome, [one.finding.diagnostic.severity for one in found.findings]) == (VERIFIED, ["info"])

    @pytest.mark.parametrize(
        ("body", "is_by_words"),
        [
            ("st.global.u32 [%d5], %r1;", True),
            ("ld.global.u32 %r3, [%d5]; add.u32 %r3, %r3, 1; st.global.u32 [%d5], %r3;", False),
            ("setp.eq.u32 %p1, %r2, 1; @%p1 st.global.u32 [%d6], %r1;", False),
            ("setp.ne.u32 %p1, %r2, 1; @%p1 bra END; st.global.u32 [%d6], %r1; END:", False),
        ],
        ids=["a table", "an update", "a guard", "a branch"],
    )
    def test_stores_where_words_say_that_may_be_equal(self, body: str, is_by_words: bool) -> None:
        table = f"{ELEMENT} ld.global.u32 %r2, [%d3]; ld.param.u64 %d6, [b]; mul.wide.u32 %d4, %r2, 4; add.s64 %d5, %d6, %d4;"

        found = verdict(f"{table} {body}", declared=".param .u64 a, .param .u64 b")

        assert found.outcome == UNDECIDED
        assert all("where words of `a` are equal" in one.text for one in found.reasons) == is_by_words
        assert found.reasons[0].example == ("--assume distinct:a" if is_by_words else "--array a=u32:64:random")

    @pytest.mark.parametrize(
        ("body", "outcome"),
        [
            ("st.shared.u32 [%r4], %r1; @%p1 ld.shared.u32 %r6, [%r5];", REFUTED),
            ("st.shared.u32 [%r4], %r1; bar.sync 0; @%p1 ld.shared.u32 %r6, [%r5];", VERIFIED),
            ("ld.shared.u32 %r6, [%r5]; @!%p1 bra END; st.shared.u32 [%r4], %r1; END:", REFUTED),
            ("@!%p1 bra END; st.shared.u32 [%r4], %r1; ld.shared.u32 %r6, [%r5]; END:", UNDECIDED),
            ("st.shared.u32 [%r4], %r1; @%p1 st.shared.u32 [%r5], %r1;", UNDECIDED),
            ("st.shared.u32 [%r4], %r1; and.b32 %r7, %r2, 255; add.u32 %r7, %r3, %r7; @%p1 ld.shared.u8 %r6, [%r7];", UNDECIDED),
        ],
        ids=["read", "a barrier", "write", "both", "two writes", "a table"],
    )
    def test_contents_decide_who_takes_part_in_a_race(self, body: str, outcome: str) -> None:
        """Each thread has a word of its own, and where a word of global memory is zero, it accesses that of another warp."""
        start = f"{ELEMENT} ld.global.u32 %r2, [%d3]; setp.eq.u32 %p1, %r2, 0; mov.u32 %r6, 0;"
        own = "shl.b32 %r4, %r1, 2; mov.u32 %r3, data; xor.b32 %r5, %r4, 128; add.u32 %r4, %r3, %r4; add.u32 %r5, %r3, %r5;"
        initial = "st.shared.u32 [%r4], 0; bar.sync 0;"

        found = verdict(f"{start} {own} {initial} {body}", declared=".param .u64 a")

        assert found.outcome == outcome
        said = [one for one in found.assumptions if "contents decide only which threads take part" in one]
        assert len(said) == (outcome == REFUTED)

    @pytest.mark.parametrize(
        ("condition", "update", "outcome"),
        [
            ("setp.gt.u32 %p1, %r2, 5", "ld.global.u32 %r4, [%d4]; add.u32 %r4, %r4, 1; st.global.u32 [%d4], %r4;", REFUTED),
            (
                "setp.gt.u32 %p1, %r2, 5",
                "ld.global.u32 %r4, [%d4]; setp.lt.u32 %p1, %r4, %r2; @%p1 red.global.max.u32 [%d4], %r2;",
                REFUTED,
            ),
            ("setp.gt.u32 %p1, %r2, 5", "red.global.add.u32 [%d4], 1;", VERIFIED),
            ("setp.eq.u32 %p1, %r2, 5", "ld.global.u32 %r4, [%d4]; add.u32 %r4, %r4, 1; st.global.u32 [%d4], %r4;", UNDECIDED),
            ("setp.gt.u32 %p1, %r2, 5", "st.global.u32 [%d4], %r1;", UNDECIDED),
        ],
        ids=["an update", "an update if it matters", "an atomic", "one word fits", "a store"],
    )
    def test_contents_decide_which_threads_update_a_word(self, condition: str, update: str, outcome: str) -> None:
        body = f"{ELEMENT} ld.param.u64 %d4, [b]; ld.global.u32 %r2, [%d3]; {condition}; @!%p1 bra OUT; {update} OUT:"

        assert verdict(body, declared=".param .u64 a, .param .u64 b").outcome == outcome

    @pytest.mark.parametrize(("order", "outcome"), [("acquire.gpu", VERIFIED), ("relaxed.gpu", REFUTED)])
    def test_a_flag_for_which_threads_wait_is_not_set_before(self, order: str, outcome: str) -> None:
        body = f"""
            ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra OUT;
            setp.ne.u32 %p1, %r1, 0; @%p1 bra WAIT; st.global.u32 [%d1], 7; st.release.gpu.global.u32 [%d2+12], 1; bra OUT;
            WAIT: ld.{order}.global.u32 %r3, [%d2+12]; setp.eq.u32 %p1, %r3, 0; @%p1 bra WAIT;
            ld.global.u32 %r4, [%d1]; mul.wide.u32 %d3, %r1, 4; add.s64 %d3, %d3, %d2; st.global.u32 [%d3+64], %r4; OUT:
        """
        found = verdict(body, declared=".param .u64 a, .param .u64 b", grid=2)

        assert found.outcome == outcome
        assert "`b` is zero before the launch: threads synchronize there" in found.assumptions

    def test_words_with_which_threads_compute_atomically_are_not_always_zero(self) -> None:
        """Threads lower words, which zeros would never let them do."""
        body = f"{ELEMENT} ld.param.u64 %d4, [b]; atom.global.add.u32 %r2, [%d3], 0; setp.lt.u32 %p1, %r2, 3; @%p1 bra OUT;"
        found = verdict(f"{body} st.global.u32 [%d4], %r1; OUT:", declared=".param .u64 a, .param .u64 b")

        assert found.outcome == UNDECIDED
        assert "data race" in found.reasons[0].text

    def test_nothing_is_refuted_without_time_for_all_contents(self, monkeypatch: pytest.MonkeyPatch) -> None:
        body = f"{ELEMENT} ld.global.u32 %r2, [%d3]; setp.ne.u32 %p1, %r2, 0; @%p1 st.global.u32 [%d1+64], %r1;"
        again = Runner._again

        def not_zeros(self: Runner, schedule: str | int, contents: Contents, is_needed: bool) -> bool:
            return contents.name not in ("zeros", "flags") and again(self, schedule, contents, is_needed)

        monkeypatch.setattr(Runner, "_again", not_zeros)

        assert verdict(body, declared=".param .u64 a").outcome == UNDECIDED

    def test_equal_values_that_may_be_others_are_no_flag(self) -> None:
        body = "ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; ld.global.u32 %r1, [%d2]; st.global.u32 [%d1], VALUE;"
        declared = ".param .u64 a, .param .u64 b, .param .u32 n"
        loaded_ = verdict(body.replace("VALUE", "%r1") + ELEMENT.replace("[a]", "[b]") + "st.global.u32 [%d3], %r1;", declared=declared)
        given = verdict(f"ld.param.u32 %r2, [n]; {body.replace('VALUE', '%r2')}", declared=declared)

        assert (loaded_.outcome, given.outcome) != (VERIFIED, VERIFIED)
        assert given.outcome == VERIFIED

    def test_values_that_are_equal_by_chance_leave_it_open(self) -> None:
        """Each thread stores what lies in its row of equal numbers."""
        body = f"{ELEMENT} and.b32 %r2, %r1, 0; ld.param.u64 %d1, [b]; st.global.u32 [%d1], %r4;"
        body = body.replace("and.b32 %r2, %r1, 0;", "shr.u32 %r4, %r1, 6;")

        found = verdict(body, declared=".param .u64 a, .param .u64 b")

        assert found.outcome == UNDECIDED
        assert "need not be (8.7.1)" in found.reasons[0].text


class TestDeadlocks:
    def test_a_phase_that_nobody_completes(self) -> None:
        found = verdict(f"{start(65)} {ARRIVE} {wait(0, 'W')}")

        assert found.outcome == REFUTED
        assert found.findings[0].finding.witness["launch"]["block"] == [64, 1, 1]

    def test_a_barrier_that_half_of_the_threads_leave_out(self) -> None:
        body = "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 bra ALONE; bar.sync 1, 64; bra OUT; ALONE: bar.sync 2, 64; OUT:"

        assert verdict(body).outcome == REFUTED

    def test_in_one_cta_of_three(self) -> None:
        body = f"{start(64)} mov.u32 %r2, %ctaid.x; setp.eq.u32 %p3, %r2, 2; @%p3 bra W; {ARRIVE} {wait(0, 'W')}"

        assert (verdict(body, grid=2).outcome, verdict(body, grid=3).outcome) == (VERIFIED, REFUTED)


class TestLoops:
    BODY = (
        start(64)
        + "ld.param.u32 %r5, [n]; mov.u32 %r4, 0; setp.eq.u32 %p5, %r5, 0; @%p5 bra OUT; AGAIN: and.b32 %r3, %r4, 1;"
        + ARRIVE
        + wait("%r3", "W")
        + "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, %r5; @%p3 bra AGAIN; OUT:"
    )

    @pytest.mark.parametrize("rounds", [0, 1, 100])
    def test_they_go_round_as_often_as_the_launch_says(self, rounds: int) -> None:
        found = verdict(self.BODY, given={"n": rounds})

        assert (found.outcome, found.covered["phases"]) == (VERIFIED, rounds)

    def test_without_it_a_number_is_taken_and_named(self) -> None:
        found = verdict(self.BODY)

        assert found.outcome == VERIFIED
        assert found.assumptions == ("`n` not given; tried: 64, 49, 0",)


class TestOrder:
    """Each warp stores to shared memory, and reads what the other one has stored: by strong accesses, which are no race."""

    BODY = f"""
        {ELEMENT} shl.b32 %r2, %r1, 2; mov.u32 %r3, data; add.u32 %r4, %r3, %r2; xor.b32 %r5, %r2, 128; add.u32 %r5, %r3, %r5;
        st.shared.u32 [%r4], 0; bar.sync 0;
        st.volatile.shared.u32 [%r4], 7; BARRIER ld.volatile.shared.u32 %r6, [%r5]; MORE st.global.u32 [%d3], %r6;
    """

    @pytest.mark.parametrize(
        ("barrier", "more", "outcome"),
        [
            ("", "", UNDECIDED),
            ("bar.sync 0;", "", VERIFIED),
            ("", "setp.lt.u32 %p1, %r6, 9; selp.u32 %r6, 1, 2, %p1;", VERIFIED),
            ("", "atom.shared.add.u32 %r7, [%r4], 1;", VERIFIED),
            ("", "mov.u32 %r6, %clock;", VERIFIED),
        ],
        ids=["no barrier", "a barrier", "equal results", "atomics", "a clock"],
    )
    def test_results_that_depend_on_it_are_not_verified(self, barrier: str, more: str, outcome: str) -> None:
        found = verdict(self.BODY.replace("BARRIER", barrier).replace("MORE", more), declared=".param .u64 a")

        assert found.outcome == outcome
        assert any("which of them comes first" in one.text for one in found.reasons) == (outcome == UNDECIDED)


class TestMadeUp:
    SCATTER = f"{ELEMENT} ld.global.u32 %r2, [%d3]; and.b32 %r2, %r2, 63; mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d4, %d1;"

    def test_what_shows_with_some_contents_only_is_undecided(self) -> None:
        found = verdict(f"{self.SCATTER} st.global.u32 [%d4+4096], %r1;", declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert found.reasons[0].example == "--assume distinct:a"
        assert "where words of `a` are equal" in found.reasons[0].text

    def test_what_shows_with_none_is_verified_and_says_which_were_tried(self) -> None:
        found = verdict(f"{self.SCATTER} red.global.add.u32 [%d4+4096], 1;", declared=".param .u64 a")

        assert found.outcome == VERIFIED
        assert found.covered["contents"] == 5
        assert "control flow depends on them" in found.assumptions[0]

    def test_a_race_at_an_address_that_depends_on_a_number_is_undecided(self) -> None:
        body = "ld.param.u64 %d1, [a]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x; and.b32 %r2, %r2, 0; mul.lo.u32 %r3, %r1, %r2;"
        body += "mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1;"

        assert verdict(body, declared=".param .u64 a, .param .u32 n").outcome == UNDECIDED
        assert verdict(body, declared=".param .u64 a, .param .u32 n", given={"n": 4}).outcome == REFUTED

    @pytest.mark.parametrize(("given", "outcome"), [((), VERIFIED), (("n=64", "m=64"), REFUTED)])
    def test_planes_of_an_array_that_numbers_place_are_apart(self, given: tuple[str, ...], outcome: str) -> None:
        body = f"""
            {ELEMENT} ld.param.u32 %r2, [n]; ld.param.u32 %r3, [m]; add.u32 %r4, %r1, %r2; sub.u32 %r5, %r3, %r1; add.u32 %r5, %r5, 63;
            mul.wide.u32 %d4, %r4, 4; add.s64 %d4, %d4, %d1; mul.wide.u32 %d5, %r5, 4; add.s64 %d5, %d5, %d1;
            st.global.u32 [%d3], %r1; st.global.u32 [%d4], %r1; st.global.u32 [%d5], %r1;
        """
        text = f"{HEAD}.visible .entry k(.param .u64 a, .param .u32 n, .param .u32 m)\n{{\n{REGISTERS}\n{body}\nret;\n}}\n"
        module = ptxkit.parse(text)
        found = verify(loaded(module), of_options(module, routines(module)[0], Options("64", parameters=given)), ["a", "n", "m"])

        assert found.outcome == outcome
        assert any("may be inconsistent" in what for what in found.not_covered) == (outcome == VERIFIED)

    def test_what_no_number_leads_to_is_undecided(self) -> None:
        body = f"ld.param.u32 %r9, [n]; setp.ne.u32 %p4, %r9, 12345; @%p4 bra OUT; {EXCHANGE.replace('BARRIER', '')} OUT:"
        found = verdict(body)

        assert found.outcome == UNDECIDED
        assert "with any of the numbers tried for `n`" in found.reasons[0].text
        assert verdict(body, given={"n": 12345}).outcome == REFUTED

    def test_memory_that_was_made_up_grows(self) -> None:
        body = "ld.param.u64 %d1, [a]; ld.global.u32 %r2, [%d1+40000000];"

        assert verdict(body, declared=".param .u64 a").outcome == VERIFIED

    def test_how_large_it_is_nobody_says(self) -> None:
        body = "ld.param.u64 %d1, [a]; sub.u64 %d1, %d1, 4; ld.global.u32 %r2, [%d1];"
        found = verdict(body, declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert "was not given" in found.reasons[0].text

    def test_what_lies_in_shared_memory_is_known(self) -> None:
        assert verdict("st.shared.u32 [data+512], 1;").outcome == REFUTED

    @pytest.mark.parametrize(("step", "outcome"), [(4, REFUTED), (3, VERIFIED)])
    def test_what_leaves_shared_memory_with_numbers_that_lead_there_is_wrong(self, step: int, outcome: str) -> None:
        guard = "ld.param.u32 %r5, [n]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, %r5; @%p1 bra OUT;"
        store = f"shl.b32 %r2, %r1, {step}; mov.u32 %r3, data; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1; OUT:"

        assert verdict(f"{guard} {store}").outcome == outcome

    def test_real_numbers_are_tried_where_no_others_lead_to_a_store(self) -> None:
        body = (
            f"{ELEMENT} .reg .f32 %f; ld.global.f32 %f, [%d3]; setp.gt.f32 %p1, %f, 0f3E800000; setp.lt.f32 %p2, %f, 0f3F000000;"
            "and.pred %p1, %p1, %p2; @!%p1 bra OUT; st.global.f32 [%d3], 0f00000000; OUT:"
        )
        found = verdict(body, declared=".param .u64 a, .param .u32 n")

        assert found.outcome == VERIFIED
        assert "random real numbers" in found.assumptions[-1]

    def test_random_words_in_one_array_where_random_words_in_all_do_not_end(self) -> None:
        """Threads follow a chain from an element of `a` through `b`, and count at its end."""
        body = f"""
            {ELEMENT} ld.param.u64 %d4, [b]; ld.global.u32 %r2, [%d3];
            NEXT: mov.u32 %r3, %r2; mul.wide.u32 %d5, %r3, 4; add.s64 %d5, %d4, %d5; ld.global.u32 %r2, [%d5]; setp.ne.u32 %p1, %r2, %r3;
            @%p1 bra NEXT; setp.eq.u32 %p1, %r2, 0; @%p1 bra OUT;
            ld.global.u32 %r4, [%d5+4000000]; add.u32 %r4, %r4, 1; st.global.u32 [%d5+4000000], %r4; OUT:
        """
        found = verdict(body, declared=".param .u64 a, .param .u64 b", threads=256)

        assert found.outcome == UNDECIDED
        assert any("beside 0, 1, 2, …" in one.text for one in found.reasons)

    def test_a_store_to_which_no_contents_lead_leaves_a_doubt(self) -> None:
        # no square ends in the bits 101
        body = f"{ELEMENT} ld.global.u32 %r2, [%d3]; mul.lo.u32 %r2, %r2, %r2; and.b32 %r2, %r2, 7; setp.eq.u32 %p1, %r2, 5; @!%p1 bra OUT;"
        found = verdict(f"{body} st.global.u32 [%d3], 0; OUT:", declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert "with any of the contents tried for `a`" in found.reasons[0].text

    @pytest.mark.parametrize(
        ("compared", "what"),
        [
            ("setp.eq.u32 %p1, %r2, 12345678;", "words among 12345678 in"),
            ("mov.u32 %r3, 12345678; setp.eq.u32 %p1, %r2, %r3;", "beside 0, 1, 2"),
        ],
    )
    def test_words_are_tried_with_which_the_kernel_compares_them(self, compared: str, what: str) -> None:
        body = f"{ELEMENT} ld.global.u32 %r2, [%d3]; {compared} @!%p1 bra OUT; st.global.u32 [%d3+4], 0; OUT:"
        found = verdict(body, declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert what in found.reasons[0].text

    def test_numbers_are_tried_that_are_far_from_their_neighbours(self) -> None:
        """The shortest of four rows, of 200 at most, has its last element stored to 128."""
        rows = [f"ld.global.u32 %r3, [%d3+{at}]; sub.s32 %r4, %r3, %r2; mov.u32 %r2, %r3; min.s32 %r5, %r5, %r4;" for at in (4, 8, 12, 16)]
        first = f"{ELEMENT} mov.u32 %r5, 200; ld.global.u32 %r2, [%d3];"
        last = "setp.le.s32 %p1, %r5, 0; @%p1 bra OUT; mov.u32 %r6, data; mad.lo.u32 %r6, %r5, 4, %r6; st.shared.u32 [%r6-4], %r1; OUT:"
        found = verdict(f"{first} {' '.join(rows)} {last}", 1, declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert "numbers that rise by random steps" in found.reasons[0].text

    def test_real_numbers_are_tried_that_are_of_another_magnitude_in_each_warp(self) -> None:
        warps = "and.b32 %r2, %r1, 32; shl.b32 %r2, %r2, 2; cvt.u64.u32 %d4, %r2; add.s64 %d4, %d1, %d4; ld.global.b32 %r3, [%d4];"
        meets = "abs.f32 %r3, %r3; setp.lt.f32 %p1, %r3, 0f3CA3D70A; @%p1 bra OUT; barrier.sync 0; OUT: barrier.sync 1;"
        found = verdict(f"{ELEMENT} {warps} {meets}", declared=".param .u64 a")

        assert found.outcome == UNDECIDED
        assert "random real numbers" in found.reasons[0].text

    def test_a_number_that_decides_only_whether_an_error_occurs_is_no_excuse(self) -> None:
        """Only whole warps store their part, and each part is read."""
        store = "add.u32 %r4, %r1, 32; setp.gt.u32 %p1, %r4, %r2; shl.b32 %r5, %r1, 2; mov.u32 %r6, data; add.u32 %r6, %r6, %r5;"
        load = "@!%p1 st.shared.u32 [%r6], %r1; bar.sync 0; ld.shared.u32 %r7, [%r6]; setp.gt.u32 %p2, %r7, 5; @%p2 bra OUT;"
        limit = "setp.ge.u32 %p3, %r1, %r2; @%p3 bra OUT; st.global.u32 [%d3], %r7; OUT:"
        body = f"{ELEMENT} ld.param.u32 %r2, [n]; mad.wide.u32 %d3, %r2, 4, %d3; {store} {load} {limit}"

        assert verdict(body, declared=".param .u64 a, .param .u32 n").outcome == UNDECIDED


class TestDescriptors:
    """A matrix of which a descriptor names more than there is: 1024 bytes from eight lines to the next, in 1024."""

    BODY = """.version 8.5
        .target sm_90a
        .address_size 64
        .visible .entry k(.param .u64 a)
        {
        .shared .align 128 .b8 s[1024]; .reg .f32 %d<9>; .reg .b32 %r<9>; .reg .b64 %t<5>;
        mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 3; mov.u32 %r3, s; add.u32 %r2, %r2, %r3; ld.param.u64 %t2, [a];
        st.shared.u64 [%r2], 0; fence.proxy.async.shared::cta; bar.sync 0;
        shr.u32 %r4, %r3, 4; cvt.u64.u32 %t1, %r4; or.b64 %t1, %t1, DESCRIPTOR;
        mov.f32 %d1, 0f00000000; mov.f32 %d2, %d1; mov.f32 %d3, %d1; mov.f32 %d4, %d1;
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d1, %d2, %d3, %d4}, %t1, %t1, 1, 1, 1, 0, 0;
        wgmma.commit_group.sync.aligned;
        WAIT
        mul.wide.u32 %t3, %r1, 4; add.s64 %t2, %t2, %t3; st.global.f32 [%t2], %d1;
        wgmma.wait_group.sync.aligned 0;
        ret;
        }
        """.replace("DESCRIPTOR", str(64 << 32 | 8 << 16))

    @pytest.mark.parametrize(("wait", "outcome", "rules"), [("", REFUTED, ["W003"]), ("wgmma.wait_group.sync.aligned 0;", UNDECIDED, [])])
    def test_what_else_is_wrong_is_found(self, wait: str, outcome: str, rules: list[str]) -> None:
        module = ptxkit.parse(self.BODY.replace("WAIT", wait))
        known = parameters(routines(module)[0])
        arguments = tuple([one.made_up(128) for one in known])
        found = verify(loaded(module), Launch("k", (1, 1, 1), (128, 1, 1), arguments), ["a"])

        assert (found.outcome, [one.finding.diagnostic.rule for one in found.findings]) == (outcome, rules)
        assert outcome == REFUTED or "may need only another part of it" in found.reasons[0].text


class TestUnwritten:
    LOAD = f"{ELEMENT} ld.shared.u32 %r2, [data];"

    def test_a_result_that_nobody_has_written_may_be_meant(self) -> None:
        found = verdict(f"{self.LOAD} st.global.u32 [%d3], %r2;", declared=".param .u64 a")

        assert (found.outcome, [one.finding.diagnostic.rule for one in found.findings]) == (UNDECIDED, ["R008"])

    def test_a_branch_on_it_is_not(self) -> None:
        body = f"{self.LOAD} setp.eq.u32 %p1, %r2, 7; @%p1 bra OUT; st.global.u32 [%d3], %r1; OUT:"

        assert verdict(body, declared=".param .u64 a").outcome == REFUTED


class TestUnknown:
    def test_a_function_without_a_body_that_is_given_an_address(self) -> None:
        found = verdict(f"{ELEMENT} call f, (%d1);", declared=".param .u64 a", module_level=".extern .func f(.reg .b64 %p);\n")

        assert found.outcome == UNDECIDED
        assert ("`f` is called" in found.reasons[0].text, found.reasons[0].example) == (True, "--library FILE.ptx")

    def test_a_function_without_a_body_that_returns_a_number(self) -> None:
        found = verdict(f"{ELEMENT} call (%r2), f, (%r1); st.global.u32 [%d3], %r2;", declared=".param .u64 a", module_level=FUNCTION)

        assert found.outcome == VERIFIED
        assert "what `f` does, which nothing defines" in found.not_covered

    CALL = """
        ld.param.u64 %d5, [f]; { .reg .b32 temp; .param .b32 x; st.param.b32 [x], %r1; .param .b32 y;
        form: .callprototype (.param .b32 _) _ (.param .b32 _); call (y), %d5, (x), form; ld.param.b32 %r2, [y]; }
        st.global.u32 [%d3], %r2;
    """

    def test_a_pointer_to_a_function_that_no_module_defines(self) -> None:
        found = verdict(ELEMENT + self.CALL, declared=".param .u64 a, .param .u64 f")

        assert found.outcome == VERIFIED
        assert "what `%d5` does, which nothing defines" in found.not_covered

    def test_a_pointer_to_nowhere_where_there_is_a_function_to_call(self) -> None:
        own = ".func (.param .b32 r) g(.param .b32 a) { .reg .b32 %r<2>; ld.param.b32 %r1, [a]; st.param.b32 [r], %r1; ret; }\n"
        found = verdict(ELEMENT + self.CALL, declared=".param .u64 a, .param .u64 f", given={"f": 64}, module_level=own)

        assert found.outcome == UNDECIDED

    def test_a_race_that_depends_on_what_such_a_function_returns(self) -> None:
        store = "mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1;"
        found = verdict(f"{ELEMENT} call (%r2), f, (%r1); {store}", declared=".param .u64 a", module_level=FUNCTION)

        assert found.outcome == UNDECIDED

    def test_numbers_are_looked_for_by_which_all_is_executed(self) -> None:
        condition = "ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m]; setp.ne.u32 %p1, %r1, 37; @%p1 bra OUT;"
        second = "xor.b32 %r3, %r1, %r2; setp.ne.u32 %p2, %r3, 38; @%p2 bra OUT; bar.sync 0; OUT:"
        text = f"{HEAD}.visible .entry k(.param .u32 n, .param .u32 m)\n{{\n{REGISTERS}\n{condition} {second}\nret;\n}}\n"
        module = ptxkit.parse(text)
        launch = of_options(module, routines(module)[0], Options("64"))

        found = verify(loaded(module), launch, ["n", "m"])

        assert (found.outcome, found.covered["barriers"]) == (VERIFIED, 64)

    @pytest.mark.parametrize(("condition", "outcome"), [("%r2, 0", UNDECIDED), ("%r1, 64", VERIFIED)])
    def test_numbers_are_looked_for_by_which_both_sides_of_a_branch_are_taken(self, condition: str, outcome: str) -> None:
        """One side does not write %r3, which is stored on both."""
        body = f"""
            {ELEMENT} ld.param.u32 %r2, [n]; setp.eq.u32 %p1, {condition}; @%p1 bra STORE; mov.u32 %r3, 1; STORE: st.global.u32 [%d3], %r3;
        """

        found = verdict(body, declared=".param .u64 a, .param .u32 n")

        assert (found.outcome, [one.line for one in found.reasons]) == (outcome, [] if outcome == VERIFIED else [8])
        assert found.executed.untaken == ()

    def test_a_side_that_no_number_takes_is_named(self) -> None:
        other = "xor.b32 %r2, %r2, 0x5a5a5a5a; setp.eq.u32 %p1, %r2, 0x12345678; @%p1 bra OUT; st.global.u32 [%d3], %r1; OUT:"

        found = verdict(f"{ELEMENT} ld.param.u32 %r2, [n]; {other}", declared=".param .u64 a, .param .u32 n")

        assert found.outcome == VERIFIED
        assert "the other side of the branch on line 7, which no number that was tried takes" in found.not_covered

    def test_time(self) -> None:
        found = verdict("mov.u32 %r1, 1; LOOP: add.u32 %r1, %r1, 2; setp.ne.u32 %p1, %r1, 0; @%p1 bra LOOP;", declared="", budget=0.2)

        assert found.outcome == UNDECIDED
        assert found.reasons[0].example == "--budget 300"

    def test_a_trap_with_what_was_made_up(self) -> None:
        body = "ld.param.u32 %r1, [n]; setp.ne.u32 %p1, %r1, 7; @%p1 trap;"

        assert (verdict(body).outcome, verdict(body, given={"n": 6}).outcome) == (UNDECIDED, REFUTED)
        assert verdict(body, given={"n": 7}).outcome == VERIFIED


class TestSearch:
    def test_a_value_that_does_not_matter_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The race is for a `w` that is smaller than the CTA is wide; to come to it, `h` and `r` matter alone."""
        body = f"""
            {ELEMENT} ld.param.u32 %r2, [w]; ld.param.u32 %r3, [h]; ld.param.u32 %r4, [r]; rem.u32 %r5, %r1, %r2; mul.wide.u32 %d4, %r5, 4;
            add.s64 %d4, %d4, %d1; setp.ne.u32 %p1, %r4, 7; setp.lt.or.u32 %p1, %r3, 65, %p1; @%p1 bra OUT; st.global.u32 [%d4], %r1; OUT:
        """

        declared = ".param .u64 a, .param .u32 w, .param .u32 h, .param .u32 r"
        module = ptxkit.parse(f"{HEAD}.visible .entry k({declared})\n{{\n{REGISTERS}\n{body}\nret;\n}}\n")
        launch = attrs.evolve(of_options(module, routines(module)[0], Options("64")), decisions=())
        monkeypatch.setattr(Launch, "others", lambda _, numbers: iter([numbers.having({(1, 0, 4): 5, (2, 0, 4): 100, (3, 0, 4): 7})]))

        found = verify(loaded(module), launch, ["a", "w", "h", "r"])

        assert (found.outcome, found.reasons) == (VERIFIED, ())
        assert "`w` = 64" in found.assumptions[0]
