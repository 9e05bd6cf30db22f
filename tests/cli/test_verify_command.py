"""`ptxkit verify`: fixtures with their launches, and what is planted in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli.verify import command

KERNELS = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
RING = ["-k", "two_slots", "--block", "64", "--param", "two_slots_param_2=7"]
GEMM = ["--block", "384", "--grid", "3,2", "--param", "wgmma_gemm_param_4=320"]
BOXES = {"wgmma_gemm_param_0": {"box": [128, 64], "type": "f16"}, "wgmma_gemm_param_1": 8192}


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, arguments, input=text)


def fixture(name: str) -> str:
    return str(KERNELS / f"{name}.sm_90a.ptx")


def planted(before: str, after: str) -> Result:
    """The verdict on the ring with something else in place of the first that is so."""
    head, entry, body = Path(fixture("mbarrier")).read_text(encoding="utf-8").partition(".entry two_slots(")
    assert before in body
    return run("-", *RING, text=head + entry + body.replace(before, after, 1))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mbarrier", ["-k", "split_barrier", "--block", "128"]),
        ("mbarrier", RING),
        ("mbarrier", ["-k", "async_arrive", "--block", "32"]),
        ("tma_1d", ["-k", "bulk_ring", "--block", "288", "--grid", "3", "--param", "bulk_ring_param_2=7"]),
        ("cluster", ["-k", "multicast", "--block", "128", "--cluster", "2", "--grid", "4"]),
        ("cluster", ["-k", "async_store", "--block", "32", "--cluster", "2", "--grid", "4"]),
    ],
)
def test_a_good_kernel_is_verified(name: str, arguments: list[str]) -> None:
    result = run(fixture(name), *arguments)

    assert result.exit_code == 0, result.output
    assert ": verified\n" in result.output


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

    def test_is_said_to_be_missing(self) -> None:
        result = run("-", "--block", "32", "--param", "table=4096", text=self.TEXT)

        assert result.exit_code == 3
        assert "ld.global.u32 %r, [%d+4];` gives (--memory)" in result.output

    @pytest.mark.parametrize(("given", "code"), [("table=12", 1), ("table=0:12", 1), ("*=4", 0)])
    def test_is_given(self, given: str, code: int) -> None:
        result = run("-", "--block", "32", "--param", "table=4096", "--memory", given, text=self.TEXT)

        assert result.exit_code == code
        assert "this is so for this launch if\n  -:8: this gives what --memory says" in result.output

    @pytest.mark.parametrize("given", ["table", "table=x", "table=1:y"])
    def test_what_is_no_number(self, given: str) -> None:
        result = run("-", "--block", "32", "--memory", given, text=self.TEXT)

        assert result.exit_code == 2
        assert "--memory takes NAME=NUMBER" in result.output


class TestBoxes:
    def test_tensor_maps_say_how_many_bytes_are_copied(self, tmp_path: Path) -> None:
        boxes = tmp_path / "boxes.json"
        boxes.write_text(json.dumps(BOXES), encoding="utf-8")

        assert run(fixture("wgmma_gemm"), *GEMM, "--boxes", str(boxes)).exit_code == 0

    def test_a_box_of_another_size_hangs(self, tmp_path: Path) -> None:
        boxes = tmp_path / "boxes.json"
        boxes.write_text(json.dumps({**BOXES, "wgmma_gemm_param_1": 4096}), encoding="utf-8")
        result = run(fixture("wgmma_gemm"), *GEMM, "--boxes", str(boxes))

        assert result.exit_code == 1
        assert "4096 bytes more are announced than are copied" in result.output

    def test_without_them_it_is_undecided(self) -> None:
        result = run(fixture("wgmma_gemm"), *GEMM)

        assert result.exit_code == 3
        assert "only its tensor map says (--boxes)" in result.output

    def test_those_are_proposed_with_which_all_comes(self, tmp_path: Path) -> None:
        proposed = json.loads(run(fixture("wgmma_gemm"), *GEMM, "--format", "json").output)["boxes"]
        boxes = tmp_path / "boxes.json"
        boxes.write_text(json.dumps(proposed), encoding="utf-8")

        assert proposed == {"wgmma_gemm_param_0": 16384, "wgmma_gemm_param_1": 8192}
        assert run(fixture("wgmma_gemm"), *GEMM, "--boxes", str(boxes)).exit_code == 0

    @pytest.mark.parametrize("text", ["[", "[1]", '{"a": 0}', '{"a": {"box": [2]}}', '{"a": {"box": [2, "x"], "type": "f16"}}'])
    def test_what_is_no_box(self, tmp_path: Path, text: str) -> None:
        boxes = tmp_path / "boxes.json"
        boxes.write_text(text, encoding="utf-8")
        result = run(fixture("wgmma_gemm"), *GEMM, "--boxes", str(boxes))

        assert result.exit_code == 2
        assert str(boxes) in result.output


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mbarrier.init.shared::cta.b64 [", "// mbarrier.init.shared::cta.b64 ["),
        ("mbarrier.init.shared::cta.b64 [%r24], 32", "mbarrier.init.shared::cta.b64 [%r24], 33"),
        ("mbarrier.arrive.shared::cta.b64 state, [%r42];", ""),
        ("mbarrier.test_wait.parity.shared::cta.b64 ready, [%r40], %r41;", "mbarrier.test_wait.parity.shared::cta.b64 ready, [%r40], 0;"),
    ],
)
def test_a_kernel_that_hangs_is_refuted(before: str, after: str) -> None:
    result = planted(before, after)

    assert result.exit_code == 1, result.output
    assert "one order in which it comes to this" in result.output


def test_it_is_json_too() -> None:
    told = json.loads(run(fixture("mbarrier"), *RING, "--format", "json").output)

    assert told["outcome"] == "verified"
    assert (told["phases"], told["reasons"]) == (14, [])


class TestUndecided:
    def test_for_a_parameter_that_is_not_given(self) -> None:
        result = run(fixture("mbarrier"), *RING[:4])

        assert result.exit_code == 3
        assert "depends on the parameter `two_slots_param_2` (--param)" in result.output

    def test_for_what_is_not_modelled(self) -> None:
        result = planted("mbarrier.init", "newer.instruction %r1;\n mbarrier.init")

        assert result.exit_code == 3
        assert "`newer.instruction` is not modelled" in result.output

    def test_for_what_memory_says(self) -> None:
        body = "ld.param.u64 %d, [p]; L: ld.volatile.global.u32 %r, [%d]; setp.eq.u32 %q, %r, 0; @%q bra L; bar.sync 0; ret;"
        head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n"
        text = f"{head}{{ .reg .b32 %r; .reg .b64 %d; .reg .pred %q;\n{body} }}"
        result = run("-", "--block", "64", "--param", "p=4096", text=text)

        assert result.exit_code == 3


class TestCannotRun:
    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (["--block", "64"], "say which kernel (-k)"),
            (["-k", "nobody", "--block", "64"], "no kernel 'nobody'"),
            (["-k", "two_slots", "--block", "0"], "--block takes one to three numbers"),
            (["-k", "two_slots", "--block", "2048"], "at most 1024 threads"),
            (["-k", "two_slots", "--block", "64", "--param", "n"], "--param takes NAME=NUMBER"),
            (["-k", "two_slots", "--block", "64", "--grid", "3", "--cluster", "2"], "no clusters of 2"),
            (["-k", "two_slots", "--block", "64", "--boxes", "/nowhere.json"], "/nowhere.json"),
        ],
    )
    def test_it_says_why(self, arguments: list[str], why: str) -> None:
        result = run(fixture("mbarrier"), *arguments)

        assert result.exit_code == 2
        assert why in result.output

    def test_more_threads_than_the_kernel_has(self) -> None:
        result = run(fixture("tma_1d"), "-k", "bulk_ring", "--block", "512")

        assert result.exit_code == 2
        assert ".maxntid" in result.output

    def test_text_that_does_not_parse(self) -> None:
        result = run("-", "--block", "1", text=".version 8.0\n.target sm_90\n.visible .entry k( {")

        assert result.exit_code == 2
        assert result.output.startswith("ptxkit: -:")
