"""`ptxkit verify`: launches by options and by a file, fixtures, and what is planted in them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("numpy")

import ptxkit.machine  # noqa: F401  (so that witnesses are held against the execution)
from ptxkit.cli import main

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "fixtures" / "kernels"
PAIRS = ROOT.parent / "shared" / "lint"
RING = ["-k", "two_slots", "--block", "64", "--param", "param_2=7"]
PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry shift(.param .u64 a, .param .u32 n)
{
.reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<4>;
ld.param.u64 %d1, [a];
ld.param.u32 %r2, [n];
mov.u32 %r1, %tid.x;
setp.ge.u32 %p, %r1, %r2;
@%p bra END;
mul.wide.u32 %d2, %r1, 4;
add.s64 %d3, %d1, %d2;
ld.global.u32 %r3, [%d3+4];
st.global.u32 [%d3], %r3;
END:
ret;
}
"""
LAUNCH = """
[[kernel]]
entry = "shift"
grid = 1
block = 64
args = [{ buffer = "u32", length = 100, fill = "iota" }, { scalar = "u32", value = 64 }]
"""

BLIND = Path(__file__).resolve().parents[2] / "fixtures" / "blind" / "sixth"


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, ["verify", *arguments], input=text)


def report(*arguments: str, text: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*arguments, "--format", "json", text=text).stdout)
    return found


@pytest.fixture
def shift(tmp_path: Path) -> Path:
    (tmp_path / "launch.toml").write_text(LAUNCH)
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    return path


def fixture(name: str) -> str:
    return str(KERNELS / f"{name}.sm_90a.ptx")


def planted(before: str, after: str) -> Result:
    """The verdict on the ring with something else in place of the first that is so."""
    head, entry, body = Path(fixture("mbarrier")).read_text(encoding="utf-8").partition(".entry two_slots(")
    assert before in body
    return run("-", *RING, text=head + entry + body.replace(before, after, 1))


class TestReport:
    def test_has_what_is_said_of_it(self, shift: Path) -> None:
        found = report(str(shift), "--block", "64", "--param", "n=64")

        assert list(found) == ["version", "kernel", "outcome", "findings", "covered", "not_covered"]
        assert (found["version"], found["kernel"], found["outcome"]) == (1, "shift", "refuted")
        assert found["covered"]["global"] == 128
        assert any("`a` not given" in what for what in found["not_covered"])

    def test_a_finding_has_its_witness(self, shift: Path) -> None:
        found = report(str(shift), "--block", "64", "--param", "n=64")["findings"]

        assert len(found) == 1
        witness = found[0]["witness"]
        assert [access["line"] for access in witness["accesses"]] == [14, 15]
        assert (witness["space"], witness["variable"], witness["bytes"]) == ("global", "a", 4)
        assert (witness["launch"]["block"], witness["launch"]["arguments"]) == ([64, 1, 1], {"n": 64})

    @pytest.mark.parametrize("by_file", [True, False])
    def test_its_replay_shows_it_again(self, shift: Path, by_file: bool) -> None:
        launch = ["--launch", str(shift.parent / "launch.toml")] if by_file else ["--block", "64", "--param", "n=64"]
        first = report(str(shift), *launch)["findings"][0]["witness"]
        words = shlex.split(first["replay"])
        output = shift.parent / "again.json"
        assert words[:2] == ["ptxkit", "run" if by_file else "verify"]
        if by_file:
            assert CliRunner().invoke(main, [*words[1:], "--json", str(output)]).exit_code == 1
            again = json.loads(output.read_text())["launches"][0]["findings"][0]["witness"]
        else:
            again = json.loads(CliRunner().invoke(main, [*words[1:], "--format", "json"]).stdout)["findings"][0]["witness"]

        assert again["accesses"] == first["accesses"]

    def test_sarif_has_a_flow_for_each_thread(self, shift: Path) -> None:
        result = json.loads(run(str(shift), "--block", "64", "--param", "n=64", "--format", "sarif").stdout)["runs"][0]["results"][0]
        flows = result["codeFlows"][0]["threadFlows"]

        assert len(flows) == 2
        assert {step["location"]["physicalLocation"]["region"]["startLine"] for flow in flows for step in flow["locations"]} == {14, 15}
        assert sorted(step["executionOrder"] for flow in flows for step in flow["locations"]) == [1, 2]
        assert result["properties"]["witness"]["variable"] == "a"

    def test_the_text_says_who_and_how_to_see_it_again(self, shift: Path) -> None:
        result = run(str(shift), "--block", "64", "--param", "n=64")

        assert result.exit_code == 1
        assert result.stdout.startswith("shift: refuted\n")
        assert "witness: line 15: thread (1,0,0) of CTA (0,0,0): write" in result.stdout or "witness: line 14" in result.stdout
        assert f"replay: ptxkit verify {shift} --block 64 --param n=64" in result.stdout
        assert "covered: accesses: 0 of shared memory, 128 of global memory; not covered: the bounds of `a`" in result.stdout


class TestLaunch:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--block", "64", "--param", "nn=1"], "there is no parameter 'nn', did you mean 'n'? there are a, n"),
            (["--block", "64", "--param", "number=1"], "there is no parameter 'number'; there are a, n"),
            (["--block", "64", "--param", "n"], "--param takes NAME=NUMBER, not 'n'"),
            (["--block", "64", "--param", "n=99999999999"], "99999999999 does not fit n, which has 4 bytes"),
            (["--block", "64", "--array", "a=f31:7"], "--array takes NAME=TYPE:COUNT"),
            (["--block", "64x2x99"], "a CTA has at most 1024 threads"),
            (["--grid", "2"], "--block or --launch is needed"),
            (["--block", "64", "-k", "shaft"], "no kernel 'shaft'"),
            (["--block", "64", "--check", "rages"], "there is no check 'rages'"),
            (["--launch", "no such file"], "no such file"),
            (["--launch", "a file", "--block", "64"], "leave out the options for its shape and its arguments"),
            (["--block", "64", "--target", "sm_9"], "no target 'sm_9'"),
            (["--block", "64", "--array", "a=u32:1000000000000000"], "more bytes than this computer has memory"),
            (["--block", "64", "--array", "a=u32::none.npy"], "none.npy: No such file or directory"),
            (["--block", "64", "--assume", "different:a"], "--assume takes distinct:NAME, not 'different:a'"),
            (["--block", "64", "--assume", "distinct:n"], "nothing can be assumed about n: it is not an array"),
            (["--block", "64", "--memory", "a=1", "--assume", "distinct:a"], "nothing can be assumed about a: its contents were given"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, shift: Path, arguments: list[str], message: str) -> None:
        result = run(str(shift), *arguments)

        assert result.exit_code == 2
        assert message in result.stderr

    def test_an_error_of_a_library_is_reported_there(self, shift: Path) -> None:
        library = shift.parent / "library.ptx"
        library.write_text(".version 8.0\n}")

        assert f"ptxkit: {library}:2:1: " in run(str(shift), "--block", "64", "--library", str(library)).stderr

    @pytest.mark.parametrize("name", ["n", "1"])
    def test_a_parameter_by_name_or_number(self, shift: Path, name: str) -> None:
        assert run(str(shift), "--block", "64", "--param", f"{name}=1").exit_code == 0

    def test_the_block_of_the_directive(self) -> None:
        text = (
            PTX.replace("a, .param .u32 n)", "a, .param .u32 n) .reqntid 32, 2, 1").replace("[%d3+4]", "[%d3]").replace("%tid.x", "%tid.y")
        )

        assert run("-", "--param", "n=0", text=text).exit_code == 0
        assert "needed" in run("-", text=PTX).stderr

    @pytest.mark.parametrize(("given", "code"), [([], 0), (["--shared", "65536"], 0), (["--shared", "4096"], 1)])
    def test_dynamic_shared_memory_is_as_large_as_is_accessed(self, given: list[str], code: int) -> None:
        body = ".reg .b32 %r<3>; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mad.lo.u32 %r1, %r1, 4, %r2; st.shared.u32 [%r1+40000], 1;"
        text = (
            f".version 8.0\n.target sm_80\n.address_size 64\n.extern .shared .align 16 .b8 s[];\n.visible .entry k()\n{{ {body} ret; }}\n"
        )

        found = run("-", "--block", "32", *given, text=text)

        assert found.exit_code == code
        assert ("dynamic shared memory, as its size was not given" in found.stdout) == (not given)

    def test_by_a_file(self, shift: Path) -> None:
        assert run(str(shift), "--launch", str(shift.parent / "launch.toml")).exit_code == 1

    def test_an_array_that_is_too_small(self, shift: Path) -> None:
        arguments = [str(shift), "--block", "64", "--param", "n=1", "--array"]

        assert run(*arguments, "a=u32:2:zeros").exit_code == 0
        assert run(*arguments, "a=u32:1:zeros").exit_code == 1

    def test_a_launch_that_the_kernel_rules_out(self) -> None:
        text = PTX.replace(")\n{", ") .reqntid 32\n{", 1)

        assert "requires blocks of 32x1x1 (.reqntid), not 64x1x1" in run("-", "--block", "64", text=text).stderr


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mbarrier", ["-k", "split_barrier", "--block", "128"]),
        ("mbarrier", RING),
        ("mbarrier", ["-k", "async_arrive", "--block", "32"]),
        ("tma_1d", ["-k", "bulk_ring", "--block", "288", "--grid", "3", "--param", "param_2=7"]),
    ],
)
def test_a_good_kernel_is_verified(name: str, arguments: list[str]) -> None:
    result = run(fixture(name), *arguments)

    assert result.exit_code == 0, result.output
    assert ": verified\n" in result.output


@pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
def test_an_error_of_lint_keeps_a_kernel_from_being_verified() -> None:
    """With the number that is given its loop is not executed, which lint shows with another."""
    name = "gvmut-C_AMP_NBody_Simulation_tiling_implementation.ptx"
    assert run(str(PAIRS.parent / "races" / "ptx" / name), "--grid", "2", "--block", "256", "--param", "param_6=64").exit_code == 3


BRANCH = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<2>;
    ld.param.u64 %d1, [out];
    ld.param.u32 %r1, [n];
    and.b32 %r2, %r1, 3;
T:  .branchtargets A, B;
    brx.idx %r2, T;
A:  mov.u32 %r3, 1;
    bra.uni E;
B:  mov.u32 %r3, 2;
E:  st.global.u32 [%d1], %r3;
    ret;
}
"""


def pair(name: str) -> list[str]:
    """A file of the pairs, and a block that it may have."""
    path = PAIRS / f"{name}.ptx"
    required = re.search(r"[.]reqntid ([0-9, ]+)", path.read_text())
    return [str(path), "--block", required[1].replace(" ", "") if required else "128"]


class TestDoubts:
    """What `lint` argues of another index than the one that is given."""

    def test_a_warning_leaves_open_what_was_made_up(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(BRANCH)

        result = run(str(path), "--block", "1")

        assert result.exit_code == 3
        assert "lint has a warning: the index is" in result.stdout

    def test_it_is_said_where_all_was_given(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(BRANCH)

        result = run(str(path), "--block", "1", "--param", "n=1", "--array", "out=u32:64:zeros")

        assert result.exit_code == 0
        assert "not covered: lint has a warning: the index is" in result.stdout

    @pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
    @pytest.mark.parametrize(("given", "code"), [([], 3), (["--array", "0=f32:512", "--array", "1=f32:512"], 0)])
    def test_threads_that_nothing_keeps_within_arrays(self, given: list[str], code: int) -> None:
        """Where their sizes are given, accesses outside of them are seen."""
        assert run(str(PAIRS / "saxpy_no_guard.bad.ptx"), "--block", "256", "--grid", "2", *given).exit_code == code

    @pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
    @pytest.mark.parametrize("name", ["pdl_no_wait", "brx_index_range", "compact_activemask"])
    def test_a_bug_that_no_execution_shows_is_not_verified(self, name: str) -> None:
        """In the bad file; of these the good twins are."""
        assert run(*pair(f"{name}.bad"), "--grid", "2").exit_code == 3
        assert run(*pair(f"{name}.good"), "--grid", "2").exit_code == 0

    @pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
    @pytest.mark.parametrize("name", ["wmma_swapped_ab", "wmma_shape_load", "transpose_oob", "tc_no_commit"])
    def test_one_that_an_execution_shows_is_refuted(self, name: str) -> None:
        assert run(*pair(f"{name}.bad")).exit_code == 1
        assert run(*pair(f"{name}.good")).exit_code == 0

    @pytest.mark.parametrize(
        ("name", "number", "rule"),
        [
            ("median_of_nine.pairs_at_odd_columns", "width", "S001"),
            ("gather_columns.two_copies_to_one_row", "width", "A006"),
            ("fir_three_stages.refill_before_the_barrier", "tiles", "A010"),
            ("rescaled_product.warps_with_rows_only", "m", "C003"),
        ],
    )
    def test_what_lint_shows_with_other_numbers_too_is_refuted(self, name: str, number: str, rule: str) -> None:
        """Also where the numbers seem to be inconsistent, as they decide the addresses, and where only the numbers of lint show it."""
        launch = ["--block", "64"] if name.startswith("gather") else []
        bad = report(str(BLIND / f"{name}.bad.ptx"), "--grid", "2", "--budget", "2", *launch)

        assert (bad["outcome"], bad["findings"][0]["rule"]) == ("refuted", rule)
        assert number in bad["findings"][0]["witness"]["launch"]["arguments"]

    @pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
    def test_a_matrix_that_leaves_its_variable_by_a_descriptor_is_no_finding(self) -> None:
        """Which part of it matters is for who wrote the layout to know."""
        result = run(str(PAIRS / "wgg_no_bar.good.ptx"), "--block", "128", "--format", "json")

        assert result.exit_code == 3
        assert json.loads(result.stdout)["findings"] == []

    @pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/lint is not there")
    @pytest.mark.parametrize(("name", "rule"), [("tc_no_dealloc", "T001"), ("tc_no_proxy_fence", "P002"), ("bulk_size_not16", "A016")])
    def test_an_mma_has_a_descriptor_that_makes_sense(self, name: str, rule: str) -> None:
        result = run(*pair(f"{name}.bad"), "--format", "json")

        assert result.exit_code == 1
        assert json.loads(result.stdout)["findings"][0]["rule"] == rule


COLUMN = """mul.lo.u32 %r4, %r1, 128;
mov.u32 %r3, column;
add.u32 %r3, %r3, %r4;
st.shared.u32 [%r3], %r1;
END:"""


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        ("END:", COLUMN, "32-way bank conflict: the lanes are served in 32 passes (L001) in line 20"),
        ("ret;", "ret;\nmov.u32 %r4, 1;\nret;", "control never reaches this (R003) in line 18"),
        ("ret;", ".reg .b32 %never;\nret;", "register `%never` is never used (R004) in line 17"),
    ],
)
def test_what_no_execution_is_wrong_for_is_named(before: str, after: str, note: str) -> None:
    text = PTX.replace("[%d3+4]", "[%d3]").replace("\n{\n", "\n{\n.shared .align 4 .b8 column[4096];\n" if after is COLUMN else "\n{\n", 1)

    found = report("-", "--block", "32", "--param", "n=32", text=text.replace(before, after))

    assert found["outcome"] == "verified"
    assert f"lint has a note: {note}" in found["not_covered"]


class TestMemory:
    TEXT = """.version 8.5
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 table)
{
    .reg .pred %p; .reg .b32 %r; .reg .b64 %d;
    ld.param.u64 %d, [table];
    ld.global.u32 %r, [%d+4];
    setp.eq.u32 %p, %r, 12;
    @%p bra MEET;
    ret;
MEET:
    bar.sync 0, 64;
    ret;
}
"""

    @pytest.mark.parametrize(("given", "code"), [("table=12", 1), ("table=0:12", 1), ("*=4", 0)])
    def test_is_given(self, given: str, code: int) -> None:
        assert run("-", "--block", "32", "--memory", given, text=self.TEXT).exit_code == code


STATE = """.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b8 role[16] = {0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3};
.const .align 4 .u32 limit;
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4;
    mov.u64 %d3, role; add.s64 %d3, %d3, %d2;
    ld.const.u32 %r2, [%d3]; ld.const.u32 %r3, [limit];
    setp.eq.u32 %p1, %r1, %r2; setp.ge.u32 %p2, %r1, %r3;
    @%p1 bra END;
    @%p2 bra END;
    st.global.u32 [%d1], %r1;
END:
    ret;
}
"""
"""Threads store to one word unless `role` has their number, or `limit` is no larger than that."""


class TestVariables:
    @pytest.mark.parametrize(
        ("given", "code"),
        [
            (["--array", "role=u32:4:zeros", "--param", "limit=4"], 1),
            (["--memory", "role=0", "--param", "limit=4"], 1),
            (["--memory", "role=0:1", "--param", "limit=4"], 0),
            (["--param", "role=1", "--param", "role+4=0", "--param", "limit=2"], 1),
            (["--param", "role=1", "--param", "role+4=0", "--param", "limit=1"], 0),
        ],
    )
    def test_hold_what_is_given(self, given: list[str], code: int) -> None:
        assert run("-", "--block", "4", *given, text=STATE).exit_code == code

    def test_an_option_to_give_one_is_proposed(self) -> None:
        found = run("-", "--block", "4", text=STATE)

        assert found.exit_code == 3
        proposed = re.findall("give what is missing, for example: (.*)", found.stdout)
        assert proposed
        assert all(run("-", "--block", "4", *option.split(), text=STATE).exit_code != 2 for option in proposed)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("--array=role=u32:5", "role has 16 bytes, and is given 20"),
            ("--param=limits=1", "there is no parameter 'limits', did you mean 'limit'? there are out, limit, role"),
            ("--assume=distinct:role", "nothing can be assumed about role: it is not an array"),
        ],
    )
    def test_what_does_not_fit_one_is_refused(self, given: str, message: str) -> None:
        result = run("-", "--block", "4", given, text=STATE)

        assert (result.exit_code, message in result.output) == (2, True)

    def test_addresses_cannot_be_given(self) -> None:
        text = STATE.replace(".const .align 4 .u32 limit", ".const .align 8 .u64 where;\n.const .align 4 .u32 limit")
        text = text.replace("ld.param.u64 %d1, [out]", "ld.const.u64 %d1, [where]")

        result = run("-", "--block", "4", "--memory", "where=1", text=text)

        assert (result.exit_code, "where holds addresses, which cannot be given" in result.output) == (2, True)


SCATTER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 table, .param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %d<6>;
    ld.param.u64 %d1, [table]; ld.param.u64 %d2, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d3, %d1, %d3;
    ld.global.u32 %r2, [%d3];
    MASK
    mul.wide.u32 %d4, %r2, 4; add.s64 %d4, %d2, %d4;
    st.global.u32 [%d4], %r1;
    ret;
}
"""


class TestAssume:
    def test_words_that_differ_are_taken_for_that(self) -> None:
        text = SCATTER.replace("MASK", "")

        assert "give what is missing, for example: --assume distinct:table" in run("-", "--block", "64", text=text).stdout
        result = run("-", "--block", "64", "--assume", "distinct:table", text=text)

        assert result.exit_code == 0
        assert "the words of `table` are assumed to differ; they are 0, 1, 2, … in several orders" in result.stdout

    def test_that_excuses_no_race_of_words_that_differ(self) -> None:
        result = run("-", "--block", "64", "--assume", "distinct:table", text=SCATTER.replace("MASK", "and.b32 %r2, %r2, 31;"))

        assert result.exit_code == 1

    def test_nor_one_through_another_array(self) -> None:
        result = run("-", "--block", "64", "--assume", "distinct:out", text=SCATTER.replace("MASK", ""))

        assert result.exit_code == 3


BOUNDS = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n, .param .u32 width)
{
.reg .b32 %r<6>; .reg .b64 %d<4>; .shared .align 4 .b8 tile[256];
ld.param.u64 %d1, [a];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 64, %r1;
READ
mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; st.global.u32 [%d3], %r1;
ret;
}
"""
TILE = "mov.u32 %r3, tile; mov.u32 %r4, %tid.x; shl.b32 %r4, %r4, 2; add.u32 %r3, %r3, %r4; st.shared.u32 [%r3], %r1; bar.sync 0;"


@pytest.mark.parametrize(
    ("read", "outcome"),
    [("", "undecided"), ("ld.param.u32 %r3, [width]; mul.lo.u32 %r1, %r1, %r3;", "verified"), (TILE, "verified")],
)
def test_bounds_that_nothing_says_anything_of_leave_it_open(read: str, outcome: str) -> None:
    options = ["-k", "k", "--block", "64", "--grid", "2", "--param", "n=100", "--param", "width=1"]
    assert report("-", *options, text=BOUNDS.replace("READ", read))["outcome"] == outcome


@pytest.mark.parametrize(("target", "form", "outcome"), [("sm_75", "shfl.bfly", "undecided"), ("sm_60", "shfl.bfly", "verified")])
def test_forms_without_sync_leave_it_open_where_lanes_may_diverge(target: str, form: str, outcome: str) -> None:
    text = (
        f".version 6.3\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 a)\n{{ .reg .b32 %r<4>; .reg .b64 %d<4>;"
        f" ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; {form}.b32 %r2, %r1, 1, 31;"
        " st.global.u32 [%d1], %r2; ret; }"
    )
    assert report("-", "-k", "k", "--block", "32", text=text)["outcome"] == outcome
