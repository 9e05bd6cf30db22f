"""Every rewriter on its own example: the first line of `fixtures/rewriters/NAME.before.ptx` says how it becomes `NAME.after.ptx`.

To write the `.after.ptx` anew after a change that is meant: PTXKIT_WRITE_FIXTURES=1.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ptxkit
from ptxkit.cli import main
from ptxkit.rewriters import Refused, Rewrite, all_rewriters
from ptxkit.rewriters.dead_code import dead_code
from ptxkit.rewriters.extract import extract
from ptxkit.rewriters.performance import performance
from ptxkit.rewriters.rename import rename
from ptxkit.rewriters.renumber import renumber
from ptxkit.rewriters.retarget import retarget
from ptxkit.rewriters.specialize import specialize

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "rewriters"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rewrite", *arguments])


@pytest.mark.parametrize("before", sorted(FOLDER.glob("*.before.ptx")), ids=lambda path: path.name.partition(".")[0])
class TestExample:
    def test_becomes_what_it_should(self, before: Path, tmp_path: Path) -> None:
        words = shlex.split(before.read_text().splitlines()[0].removeprefix("//"))[2:]
        after = before.with_name(before.name.replace(".before.", ".after."))
        out = tmp_path / "out.ptx"
        result = run(words[0], str(before), *words[1:], "-o", str(out))
        assert result.exit_code == 0, result.output
        if os.environ.get("PTXKIT_WRITE_FIXTURES"):
            after.write_text(out.read_text())

        assert out.read_text() == after.read_text()

    def test_has_no_errors_before_and_after(self, before: Path) -> None:
        for path in (before, before.with_name(before.name.replace(".before.", ".after."))):
            assert CliRunner().invoke(main, ["check", str(path)]).exit_code == 0


def test_every_rewriter_has_an_example() -> None:
    assert {name.replace("-", "_") for name in all_rewriters()} == {path.name.partition(".")[0] for path in FOLDER.glob("*.before.ptx")}


class TestRefusals:
    def test_rename_to_a_name_in_an_inner_scope(self) -> None:
        module = ptxkit.parse(HEAD + ".global .u32 a;\n.entry k() { { .reg .b32 b; mov.u32 b, 0; } ret; }")

        with pytest.raises(Refused) as refused:
            rename(module, names="a=b")
        assert refused.value.diagnostics[0].name == "name-collision"

    def test_rename_into_a_family(self) -> None:
        module = ptxkit.parse(HEAD + ".global .u32 a;\n.entry k() { .reg .b32 b<3>; ret; }")

        with pytest.raises(Refused):
            rename(module, names="a=b2")

    def test_rename_what_is_not_there(self) -> None:
        with pytest.raises(ValueError, match="nowhere"):
            rename(ptxkit.parse(HEAD), names="nowhere=a")

    @pytest.mark.parametrize("rewriter", [renumber, dead_code, lambda module: rename(module, prefix="a", what="registers")])
    def test_debugging_data(self, rewriter: object) -> None:
        module = ptxkit.parse(HEAD.replace("sm_80", "sm_80, debug") + ".entry k() { ret; }")

        with pytest.raises(Refused) as refused:
            rewriter(module)  # type: ignore[operator]
        assert refused.value.diagnostics[0].span.line == 2

    def test_extract_unknown(self) -> None:
        with pytest.raises(ValueError, match="there are k"):
            extract(ptxkit.parse(HEAD + ".entry k() { ret; }"), kernel="x")

    @pytest.mark.parametrize("values", ["5=1", "b=1", "a=4294967296", "a", "a=hex:00"])
    def test_specialize_with_what_does_not_fit(self, values: str) -> None:
        with pytest.raises(ValueError):
            specialize(ptxkit.parse(HEAD + ".entry k(.param .u32 a) { ret; }"), kernel="k", values=values)

    def test_performance_that_makes_an_error(self) -> None:
        with pytest.raises(Refused):
            performance(ptxkit.parse(HEAD + ".entry k() { ret; }"), maxntid="0,1,1")

    def test_performance_of_a_kernel_that_shares_registers_out(self) -> None:
        module = ptxkit.parse(HEAD.replace("sm_80", "sm_90a") + ".entry k() {\nsetmaxnreg.dec.sync.aligned.u32 24;\nret; }")

        with pytest.raises(Refused) as refused:
            performance(module, maxnreg=64)
        assert (refused.value.diagnostics[0].name, refused.value.diagnostics[0].span.line) == ("registers-shared-out", 5)

    def test_retarget_names_all_that_cannot_be_said(self) -> None:
        body = "\n.reg .b16 h; .reg .pred p;\ntanh.approx.bf16 h, h;\nfma.rn.bf16 h, h, h, h;\nret;\n"
        module = ptxkit.parse(f".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{{body}}}")

        with pytest.raises(Refused) as refused:
            retarget(module, target="sm_75")
        assert [found.span.line for found in refused.value.diagnostics] == [6, 7]

    def test_retarget_speaks_of_lines_of_the_file(self) -> None:
        body = "\n.reg .b32 r<3>;\nredux.sync.add.s32 r2, r1, -1;\nbarrier.cluster.arrive;\nret;\n"
        module = ptxkit.parse(f".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{{body}}}")

        with pytest.raises(Refused) as refused:
            retarget(module, target="sm_75")
        assert [(found.span.line, found.message) for found in refused.value.diagnostics] == [
            (7, "`barrier.cluster.arrive` needs sm_90 (from .version 7.8); the result would say sm_75")
        ]

    def test_retarget_of_what_the_table_does_not_know(self) -> None:
        with pytest.raises(Refused) as refused:
            retarget(ptxkit.parse(f"{HEAD}.entry k() {{ .reg .b32 r; frob.sync r, r; ret; }}"), target="sm_75")
        assert refused.value.diagnostics[0].name == "unknown-instruction"

    def test_a_version_without_the_target(self) -> None:
        with pytest.raises(ValueError, match=r"sm_100a is there from PTX 8\.6"):
            retarget(ptxkit.parse(HEAD), target="sm_100a", version="8.0")

    @pytest.mark.parametrize(
        "transform",
        [
            dead_code,
            renumber,
            retarget,
            lambda module: rename(module, prefix="a_"),
            lambda module: extract(module, kernel="k"),
            lambda module: specialize(module, kernel="k"),
        ],
    )
    def test_what_cannot_be_read(self, transform: Callable[[ptxkit.Module], Rewrite]) -> None:
        """What stands there may use any register: here that of a move that nothing else reads."""
        module = ptxkit.parse(f"{HEAD}.entry k() {{ .reg .b32 r<3>; mov.b32 r1, 0; add.s32 r2, r1 r1; ret; }}")

        with pytest.raises(Refused) as refused:
            transform(module)
        assert refused.value.diagnostics == module.diagnostics

    @pytest.mark.parametrize("name", ["1 2", "a-b", "a.b", "", "%tid", "%k", "WARP_SZ", "_", "$", "é"])
    def test_rename_to_no_name(self, name: str) -> None:
        module = ptxkit.parse(f"{HEAD}.entry k() {{ ret; }}")

        with pytest.raises(ValueError):
            rename(module, names=f"k={name}")

    @pytest.mark.parametrize("prefix", ["1 ", "-", "a."])
    def test_rename_with_no_prefix_of_a_name(self, prefix: str) -> None:
        with pytest.raises(ValueError):
            rename(ptxkit.parse(f"{HEAD}.entry k() {{ ret; }}"), prefix=prefix)

    @pytest.mark.parametrize("name", ["ret", "_a", "$1", "a$b"])
    def test_rename_to_any_name(self, name: str) -> None:
        assert rename(ptxkit.parse(f"{HEAD}.entry k() {{ ret; }}"), names=f"k={name}").module.kernels[0].name == name

    @pytest.mark.parametrize(
        "value", ["g=1e10", "g=abc", "f=1e39", "f=1e400", "f=hex:zz", "f=", "i=1.5", "b=1.5", "h=1.5", "f=0x1p3", "9=1", "f"]
    )
    def test_specialize_for_no_value(self, value: str) -> None:
        parameters = ".param .f16 g, .param .f32 f, .param .u64 i, .param .b8 b, .param .bf16 h"
        module = ptxkit.parse(f"{HEAD}.entry k({parameters}) {{ ret; }}")

        with pytest.raises(ValueError, match=r"number|parameter|digits"):
            specialize(module, kernel="k", values=value)

    def test_what_is_not_there(self) -> None:
        module = ptxkit.parse(f"{HEAD}.entry k() {{ ret; }}")
        for call in (
            lambda: dead_code(module, kernel="f"),
            lambda: extract(module, kernel=" "),
            lambda: performance(module, remove="foo"),
        ):
            with pytest.raises(ValueError):
                call()

    @pytest.mark.parametrize(("target", "version"), [("sm_1", ""), ("x", ""), ("", "8"), ("", "x.y")])
    def test_retarget_to_what_is_none(self, target: str, version: str) -> None:
        with pytest.raises(ValueError):
            retarget(ptxkit.parse(HEAD), target=target, version=version)


class TestRetarget:
    def test_the_lowest_version(self) -> None:
        module = ptxkit.parse(".version 8.8\n.target sm_80\n.address_size 64\n.entry k() { .reg .b32 r; mov.b32 r, 0; ret; }")

        assert retarget(module).module.version == (7, 0)

    def test_raises_the_version_that_a_target_needs(self) -> None:
        module = ptxkit.parse(HEAD + ".entry k() { ret; }")

        assert retarget(module, target="sm_100a").module.version == (8, 6)


class TestDeadCode:
    def cleaned(self, body: str) -> str:
        declared = ".reg .b32 r<4>;\n.reg .b64 rd<2>;\n"
        return dead_code(ptxkit.parse(f"{HEAD}.entry k(.param .u64 a)\n{{\n{declared}{body}ret;\n}}\n")).text

    def test_the_pragma_of_a_load_goes_with_it(self) -> None:
        text = self.cleaned('ld.param.u64 rd1, [a];\n.pragma "used_bytes_mask 15";\nld.global.v2.u32 {r1, r2}, [rd1];\n')

        assert ".pragma" not in text
        assert "ld." not in text

    @pytest.mark.parametrize("load", ["ld.acquire.gpu.global.u32", "ld.relaxed.gpu.global.u32", "ld.volatile.global.u32"])
    def test_strong_loads_stay(self, load: str) -> None:
        assert load in self.cleaned(f"ld.param.u64 rd1, [a];\n{load} r1, [rd1];\n")

    def test_what_stays_is_the_same_twice(self) -> None:
        text = self.cleaned("mov.u32 r1, 1;\nadd.u32 r2, r1, 1;\nbra L;\nmov.u32 r3, 0;\nL:\n")

        assert dead_code(ptxkit.parse(text)).text == text
        assert "mov" not in text


class TestSpecialize:
    def test_a_loop_is_not_folded(self) -> None:
        body = "\n.reg .pred p;\n.reg .b32 r<4>;\nld.param.u32 r1, [a];\nmov.u32 r2, 0;\n"
        body += "L: add.u32 r2, r2, r1;\nsetp.lt.u32 p, r2, 9;\n@p bra L;\nret;\n"
        new = specialize(ptxkit.parse(f"{HEAD}.entry k(.param .u32 a) {{{body}}}"), kernel="k", values="a=3", clean=False)

        assert "add.u32 r2, r2, r1;" in new.text
        assert "mov.b32 r1, 3;" in new.text


class TestCommand:
    def test_list(self) -> None:
        names = [line.split()[0] for line in run("--list").stdout.splitlines()]

        assert names == sorted(all_rewriters())

    def test_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(HEAD + ".entry k() {\n.reg .b16 h;\nfma.rn.bf16 h, h, h, h;\nret; }\n")
        result = run("retarget", str(path), "--target", "sm_75", "-o", str(tmp_path / "out.ptx"))

        assert result.exit_code == 1
        assert "6:1: error[V002]" in result.stderr
        assert not (tmp_path / "out.ptx").exists()

    def test_manifest(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(HEAD + ".entry k() { ret; }\n")
        result = run("noop-probe", str(path), "--manifest", str(tmp_path / "m.json"))

        assert result.exit_code == 0
        assert "/*ptxkit+*/ mov.b32 %pk_nothing, 0;" in result.stdout
        assert '"rewriter": "noop_probe"' in (tmp_path / "m.json").read_text()

    def test_what_cannot_be_read_stays_and_is_said(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(HEAD + ".entry k() {\nadd.s32 r1, ;\nret; }\n")
        result = run("strip-debug", str(path))

        assert (result.exit_code, result.stdout) == (0, path.read_text())
        assert f"{path}:5:13: " in result.stderr

    def test_both_files_or_none(self, tmp_path: Path) -> None:
        path = tmp_path / "k.ptx"
        path.write_text(HEAD + ".entry k() { ret; }\n")
        result = run("strip", str(path), "-o", str(tmp_path / "out.ptx"), "--manifest", str(tmp_path / "nowhere" / "m.json"))

        assert result.exit_code == 2
        assert result.stderr == f"ptxkit: {tmp_path / 'nowhere' / 'm.json'}: No such file or directory\n"
        assert [found.name for found in tmp_path.iterdir()] == ["k.ptx"]

    @pytest.mark.parametrize("arguments", [("strip", "nowhere.ptx"), ("extract", "-", "--kernel", "k"), ("nothing", "-")])
    def test_cannot_run(self, arguments: tuple[str, ...]) -> None:
        assert run(*arguments).exit_code == 2
