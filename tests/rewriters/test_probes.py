"""Probes: each on its own example, the laws that hold of all of them, and that planted faults are found.

To write the `.after.ptx` anew after a change that is meant: PTXKIT_WRITE_FIXTURES=1.
"""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shlex
import struct
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from invariants import broken

import ptxkit
from ptxkit.analyses.cfg.graph import control_flow
from ptxkit.analyses.framework.routine import Routine, routines
from ptxkit.cli import main
from ptxkit.rewriters import AtExits, Before, Site, counting, probe_code
from ptxkit.rewriters.counting import counts_of_blocks, counts_of_edges, edges
from ptxkit.rewriters.engine.checking import new_errors
from ptxkit.rewriters.manifest import LaunchShape, ProbeManifest
from ptxkit.rewriters.probes import cycles, memory_trace
from ptxkit.rewriters.probes.memory_trace import is_sampled
from ptxkit.rewriters.probing import Instrumented, all_probes, chosen, instrument
from ptxkit.rewriters.strip import strip
from ptxkit.syntax import Node

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "probes"
EVERY = ("block-counts", "warp-masks", "memory-trace", "sectors", "bank-conflicts", "cycles", "values", "arguments", "bounds")
HEAD = ".version 7.8\n.target sm_80\n.address_size 64\n"


def kernel(body: str, parameters: str = ".param .u64 a", more: str = "") -> ptxkit.Module:
    registers = ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
    return ptxkit.parse(f"{HEAD}{more}\n.visible .entry k({parameters})\n{{\n{registers}{body}\n}}\n")


def put_in(made: Instrumented) -> list[str]:
    """What was put in, line by line."""
    return [line.split("/*ptxkit+*/ ")[1] for line in made.text.split("\n") if "/*ptxkit+*/" in line]


@pytest.mark.parametrize("before", sorted(FOLDER.glob("*.before.ptx")), ids=lambda path: path.name.partition(".")[0])
class TestExample:
    def test_becomes_what_it_should(self, before: Path, tmp_path: Path) -> None:
        words = shlex.split(before.read_text().splitlines()[0].removeprefix("//"))[2:]
        after = before.with_name(before.name.replace(".before.", ".after."))
        out, manifest = tmp_path / "out.ptx", tmp_path / "out.json"
        result = CliRunner().invoke(main, ["instrument", str(before), *words, "-o", str(out), "--manifest", str(manifest)])
        assert result.exit_code == 0, result.output
        if os.environ.get("PTXKIT_WRITE_FIXTURES"):
            after.write_text(out.read_text())

        assert out.read_text() == after.read_text()
        assert CliRunner().invoke(main, ["check", str(out)]).exit_code == 0
        assert CliRunner().invoke(main, ["rewrite", "strip", str(out)]).stdout == before.read_text()
        assert json.loads(manifest.read_text())["version"] == 1


def test_every_probe_has_an_example() -> None:
    assert {name.replace("-", "_") for name in all_probes()} == {path.name.partition(".")[0] for path in FOLDER.glob("*.before.ptx")}


def test_list() -> None:
    names = [line.split()[0] for line in CliRunner().invoke(main, ["instrument", "--list"]).stdout.splitlines()]

    assert names == sorted(all_probes())


class TestLaws:
    """On every file."""

    def test_all_probes_come_out_again(self, module: ptxkit.Module) -> None:
        if module.targets and "debug" in module.targets:
            pytest.skip("slow, and nothing about it is special here")
        made = instrument(module, EVERY)

        assert strip(ptxkit.parse(made.text)).text == module.text
        assert broken(module, made.module) == []
        assert new_errors(module, made.module) == ()

    def test_the_manifest_reads_back(self, module: ptxkit.Module) -> None:
        manifest = instrument(module, ["block-counts", "edge-counts"]).manifest
        launch = LaunchShape((3, 2, 1), (50, 1, 1))
        layout = manifest.layout(launch)

        assert ProbeManifest.from_json(manifest.to_json()) == manifest
        assert len(layout.words(1 << 40)) == manifest.symbol_bytes
        assert all(set(table.column("count")) <= {0} for table in layout.decode(layout.image()))


class TestCounts:
    """Walks through the graph, counted by the counters alone."""

    @pytest.mark.parametrize("derive", ["yes", "no"])
    def test_walks(self, module: ptxkit.Module, derive: str) -> None:
        made = instrument(module, [f"block-counts:derive={derive}"])
        lot = random.Random(1)
        known = {function["function"]: function for function in made.manifest.probes[0].data.get("functions", ())}
        derived = 0
        for routine in routines(module):
            function = known.get(routine.name)
            if function is None or function["direct"]:
                continue
            derived += 1
            taken, entered = walked(routine, lot)
            counters: dict[int, int] = {}
            for (*_, counter), count in zip(function["ways"], taken, strict=True):
                if counter >= 0:
                    counters[counter] = count
            listed = [counters.get(n, 0) for n in range(max(counters, default=-1) + 1)]
            found = counts_of_edges(function, listed)

            assert found == taken
            assert counts_of_blocks(function, found) == [entered[block] for block, *_ in function["blocks"]]

        assert derived

    def test_fewest_counters(self) -> None:
        module = kernel("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra L;\nadd.u32 %r1, %r1, 1;\nL:\nret;")
        counted = [edge for edge in functions(module)[0]["ways"] if edge[3] >= 0]

        assert len(counted) == 2  # the graph has two independent cycles: there are two ways through, and the call itself

    def test_a_caller_of_what_may_exit_counts_in_memory(self) -> None:
        made = instrument(ptxkit.parse((FOLDER / "exits.ptx").read_text()), ["block-counts"])
        direct = {function["function"]: function["direct"] for function in made.manifest.probes[0].data["functions"]}

        assert direct == {"leave": False, "exit_in_call": True}


def functions(module: ptxkit.Module, probe: str = "block-counts") -> list[dict[str, list[list[int]]]]:
    return list(instrument(module, [probe]).manifest.probes[0].data["functions"])


def walked(routine: Routine, lot: random.Random) -> tuple[list[int], Counter[int]]:
    """How often a few threads that go by lot take each way and enter each block; those that do not find out are not counted."""
    listed = edges(routine)
    out: dict[int, list[int]] = {}
    for number, edge in enumerate(listed):
        out.setdefault(edge.source, []).append(number)
    taken = [0] * len(listed)
    for _ in range(8):
        mine, at = [0], listed[0].target
        for _ in range(400):
            options = out.get(at)
            if not options:
                break
            step = lot.choice(options)
            mine.append(step)
            at = listed[step].target
            if at == -1:
                for number in mine:
                    taken[number] += 1
                break
    entered: Counter[int] = Counter(dict.fromkeys(control_flow(routine).reachable, 0))
    for edge, count in zip(listed, taken, strict=True):
        entered[edge.target] += count
    return taken, entered


class TestFaultsOfOthers:
    """What probe tools that go by text get wrong; each of these fails if the fault is planted."""

    @pytest.mark.parametrize(
        ("access", "wanted"),
        [
            ("ld.global.u32 %r1, [%rd1+16];", "add.s64 %a, %rd1, 16;"),
            ("ld.global.u32 %r1, [%rd1+-16];", "add.s64 %a, %rd1, -16;"),
            ("ld.global.u32 %r1, [%rd1];", "add.s64 %a, %rd1, 0;"),
            ("st.shared.u32 [%r2+8], %r1;", "add.s32 %a_l, %r2, 8; cvt.u64.u32 %a, %a_l;"),
            ("st.shared.u32 [cell+8], %r1;", "mov.u64 %a, cell+8;"),
            ("ld.global.u64 %rd1, [%rd1+8];", "add.s64 %a, %rd1, 8;"),
        ],
    )
    def test_the_offset_is_part_of_the_address(self, access: str, wanted: str) -> None:
        made = instrument(kernel(f"{access}\nret;", more=".shared .b32 cell[8];"), ["memory-trace:space=global+shared"])
        code = put_in(made)[1].replace("%pk_p0_a", "%a")

        assert wanted in code
        assert made.text.index("/*ptxkit+*/ {") < made.text.index(access)

    @pytest.mark.parametrize(("guard", "other"), [("@%p1", "@!%p1"), ("@!%p1", "@%p1")])
    def test_a_guarded_access_counts_under_its_guard(self, guard: str, other: str) -> None:
        for probe in ("memory-trace", "sectors", "bounds", "values"):
            (code,) = put_in(instrument(kernel(f"{guard} ld.global.u32 %r1, [%rd1];\nret;"), [probe]))[1:]
            ran = [part.strip() for part in code.strip("{} ").split(";")]
            plain = [part for part in ran if part and not part.startswith((".reg", "@", "}", "{"))]

            assert other + " " not in code.replace(f"{guard} ", "")
            assert all(re.match(r"mov\.pred \S+, 0", part) for part in plain), plain

    @pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p1 "])
    @pytest.mark.parametrize(
        ("part", "touched"),
        [("%r2", "setp.ne.u32 %touched, %touched_n, 0;"), ("%p2", "not.pred %touched, %p2;"), ("!%p2", "mov.pred %touched, %p2;")],
    )
    def test_a_copy_that_reads_nothing_touches_nothing(self, guard: str, part: str, touched: str) -> None:
        module = kernel(f"{guard}cp.async.cg.shared.global [%r1], [%rd1], 16, {part};\nret;")
        for probe in ("memory-trace", "memory-trace:sample=4", "sectors", "bounds"):
            made = instrument(module, [probe])
            code = " ".join(made.text.replace("%pk_p0_", "%").split())

            assert touched in code
            assert ("mov.pred %touched, 0;" in code) == bool(guard)
            assert "@%touched activemask" in code or probe in ("bounds", "memory-trace:sample=4")
            assert new_errors(module, made.module) == ()
            assert strip(made.module).text == module.text

    def test_the_bytes_that_a_copy_reads_are_checked(self) -> None:
        made = instrument(kernel("cp.async.ca.shared.global [%r1], [%rd1], 8, %r2;\nret;"), ["bounds"])
        code = " ".join(made.text.replace("%pk_p0_", "%").replace("@%touched ", "").split())

        assert "mov.u32 %x, %r2; cvt.u64.u32 %e, %x; add.u64 %e, %e, %a; sub.u64 %e, %e, 1;" in code

    @pytest.mark.parametrize("ending", ["ret;", "exit;", "@%p1 ret;\nret;", "@!%p1 exit;\nret;", "mov.u32 %r1, 1;"])
    def test_counters_are_kept_at_every_exit(self, ending: str) -> None:
        made = instrument(kernel(f"loop:\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 9;\n@%p2 bra loop;\n{ending}"), ["block-counts"])
        pieces = re.split(r"\b(?:ret|exit);", made.text)
        last = pieces.pop() if len(pieces) > 1 else ""

        assert all(piece.count("%lanemask_lt") == 1 and "red.global.add.u64" in piece for piece in pieces)
        assert "red" not in last

    def test_a_kernel_whose_name_begins_like_another(self) -> None:
        text = f"{HEAD}.visible .entry foo_bar()\n{{ ret; }}\n.visible .entry foo()\n{{ ret; }}\n"
        made = instrument(ptxkit.parse(text), ["block-counts"])

        assert [site.function for site in made.manifest.sites] == ["foo_bar", "foo"]

    def test_no_parameters_and_all_on_one_line(self) -> None:
        made = instrument(ptxkit.parse(f"{HEAD}.entry k {{ .reg .u32 %r; mov.u32 %r, %tid.x; ret; }}"), EVERY)

        assert [kernel.parameters for kernel in made.manifest.kernels] == [()]

    def test_names_that_are_taken(self) -> None:
        module = kernel(".reg .b32 %pk_p0_n;\nmov.b32 %pk_p0_n, 0;\nret;")
        made = instrument(module, ["block-counts"])

        assert made.manifest.symbol != "__pk_words"
        assert new_errors(module, made.module) == ()

    def test_called_functions_have_probes(self) -> None:
        made = instrument(ptxkit.parse((FOLDER / "shapes.ptx").read_text()), ["block-counts"])

        assert {"number", "down"} <= {site.function for site in made.manifest.sites}

    def test_a_row_that_the_buffer_has_not_is_not_written(self) -> None:
        (code,) = put_in(instrument(kernel("ld.global.u32 %r1, [%rd1];\nret;"), ["memory-trace"]))[1:]
        fits = re.search(r"setp\.lt\.and\.u64 (\S+), \S+, \S+, \S+;", code)

        assert fits is not None
        assert all(store.startswith(f"@{fits[1]} ") for store in re.findall(r"(?:@\S+ )?st\.global[^;]*", code))

    def test_warps_of_a_block_that_is_no_multiple_of_32(self) -> None:
        made = instrument(kernel("ret;"), ["cycles"])

        assert made.manifest.layout(LaunchShape((3, 1, 1), (50, 1, 1))).placed[0].rows == 6
        assert re.search(r"add\.u32 (\S+), \1, 31;\s+shr\.u32 \1, \1, 5;", made.text)

    def test_nothing_within_a_call(self) -> None:
        body = "{ .param .b32 in; st.param.b32 [in], %r1; call f, (in); }\nret;"
        more = ".func f(.param .b32 x) { ret; }"
        made = instrument(kernel(body, more=more), ["user:at=st,code=mov.u32 {r}\\, 1;", "user:at=call,code=mov.u32 {r}\\, 1;"])

        assert [(refused.instruction, refused.reason) for refused in made.manifest.refused] == [(1, "call-sequence-split")]

    def test_carry_chains_are_left_whole(self) -> None:
        module = kernel("add.cc.u32 %r1, %r1, %r2;\naddc.u32 %r3, %r3, 0;\nret;")
        made = instrument(module, ["user:at=addc,code=add.cc.u32 {r}\\, {r}\\, 1;"])

        assert [refused.reason for refused in made.manifest.refused] == ["carry-chain-cut"]
        assert strip(made.module).text == module.text


class TestUser:
    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("mov.u32 {0}\\, 1;", "the kernel's own"),
            ("mov.u32 %r7\\, {0};", "the kernel's own"),
            ("@{on} st.global.u64 [{nothing}]\\, 1;", "not an input"),
            ("mov.u32 {r}\\,;;{", "in"),
        ],
    )
    def test_what_is_not_put_in(self, code: str, said: str) -> None:
        with pytest.raises(ValueError, match=said):
            instrument(kernel("add.u32 %r1, %r2, %r7;\nret;"), [f"user:at=add,code={code}"])

    def test_what_the_assembler_would_not_take(self) -> None:
        with pytest.raises(ptxkit.rewriters.Refused):
            instrument(kernel("add.u32 %r1, %r2, 3;\nret;"), ["user:at=add,code=add.f32 {r}\\, {r}\\, {a};"])

    def test_a_python_function(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.py"
        path.write_text('def probe(site):\n    return "@{on} red.global.add.u64 [{slot}], 1;" if site.index else None\n')
        made = instrument(kernel("add.u32 %r1, %r2, 3;\nadd.u32 %r1, %r2, 4;\nret;"), [f"user:at=add,file={path}"])

        assert [site.instruction for site in made.manifest.sites] == [1]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("def probe(site:\n", "mine.py:1: SyntaxError"),
            ("x = 1\n1 / 0\n", "mine.py:2: ZeroDivisionError: division by zero"),
            ("def probe(site):\n    return site.nothing\n", "mine.py:2: AttributeError"),
            ("def probe(site):\n    raise SystemExit(3)\n", "mine.py:2: SystemExit: 3"),
            ("def probe(site):\n    return 3\n", "gives text or None, not 3"),
            ("probe = 3\n", "no function `probe`"),
        ],
    )
    def test_a_python_file_that_fails(self, tmp_path: Path, text: str, said: str) -> None:
        path = tmp_path / "mine.py"
        path.write_text(text)
        source = tmp_path / "k.ptx"
        source.write_text(kernel("add.u32 %r1, %r2, 3;\nret;").text)
        result = CliRunner().invoke(main, ["instrument", str(source), "-p", f"user:at=add,file={path}"])

        assert result.exit_code == 2
        assert said in result.output and "Traceback" not in result.output


class TestOptions:
    @pytest.mark.parametrize(
        "text",
        ["nothing", "block-counts:registers=many", "block-counts:derive=maybe", "sectors:x=1", "sectors:at", "memory-trace:sample=3",
         "memory-trace:keep=all", "memory-trace:space=nowhere", "bounds:act=stop", "user:at=ld", "values:at=@@"],
    )  # fmt: skip
    def test_what_is_none(self, text: str) -> None:
        with pytest.raises(ValueError):
            instrument(kernel("ld.global.u32 %r1, [%rd1];\nret;"), [text])

    def test_a_comma_in_a_value(self) -> None:
        assert chosen("user:at=a\\,b,words=2").options == {"at": "a,b", "words": "2"}

    @pytest.mark.parametrize(
        ("probe", "said"),
        [
            ("user:at=add,code=bar.sync 0;", "ptxkit: 0 of 1 site\n"),
            ("user:at=nothing,code=mov.u32 {r}\\, 1;", "ptxkit: user finds nothing here to look at\nptxkit: 0 sites\n"),
            ("bank-conflicts", "ptxkit: bank-conflicts finds nothing here to look at\nptxkit: 0 sites\n"),
            ("block-counts", "ptxkit: 1 site\n"),
        ],
    )
    def test_command_says_how_many_sites(self, tmp_path: Path, probe: str, said: str) -> None:
        source = tmp_path / "k.ptx"
        source.write_text(kernel("add.u32 %r1, %r2, 3;\nret;").text)
        result = CliRunner().invoke(main, ["instrument", str(source), "-p", probe, "-o", str(tmp_path / "o.ptx")])

        assert result.exit_code == 0
        assert result.stderr.endswith(said)

    def test_a_module_of_32_bits(self) -> None:
        with pytest.raises(ValueError, match="64 bits"):
            instrument(ptxkit.parse(HEAD.replace("64", "32") + ".entry k() { ret; }"), ["block-counts"])

    def test_what_cannot_be_read_is_said(self, tmp_path: Path) -> None:
        source = tmp_path / "k.ptx"
        source.write_text(f"{HEAD}.entry k() {{ @@ foo; ret; }}")
        result = CliRunner().invoke(main, ["instrument", str(source), "-p", "block-counts", "-o", str(tmp_path / "o.ptx")])

        assert result.exit_code == 0
        assert "k.ptx:4:14: syntax error at `@`; what cannot be read stays as it is" in result.stderr

    def test_all_or_nothing_is_written(self, tmp_path: Path) -> None:
        source, out = tmp_path / "k.ptx", tmp_path / "o.ptx"
        source.write_text(kernel("ret;").text)
        wanted = ["instrument", str(source), "-p", "block-counts", "-o", str(out), "--manifest", str(tmp_path / "no" / "m.json")]

        assert CliRunner().invoke(main, wanted).exit_code == 2
        assert not out.exists()

    def test_command_fails(self, tmp_path: Path) -> None:
        assert CliRunner().invoke(main, ["instrument", str(tmp_path / "none.ptx"), "-p", "sectors"]).exit_code == 2


class TestDecoding:
    def test_a_trace_that_was_cut(self) -> None:
        made = instrument(kernel("ld.global.u32 %r1, [%rd1];\nret;"), ["memory-trace:rings=1"])
        layout = made.manifest.layout(LaunchShape(), rows=2)
        record = struct.pack("<IIQQII", 0, 0b101, 7, 99, 3, 12) + struct.pack("<32Q", *range(100, 132))
        data = bytearray(layout.image())
        data[:16] = struct.pack("<2Q", 5, 10)
        data[128 : 128 + 2 * len(record)] = record * 2
        trace, totals = layout.decode(bytes(data))

        assert trace.rows()[0] | {"line": 0} == {
            "clock": 99, "sm": 12, "block": 7, "warp": 3, "site": 0, "function": "k", "line": 0, "space": "global", "kind": "read",
            "bytes": 4, "mask": "00000005", "active": 2, "addresses": "64 66",
        }  # fmt: skip
        assert totals.rows() == [{"accesses": 5, "threads": 10, "kept": 2}]
        assert trace.notes == ("5 accesses of warps, of which 2 are here",)

    def test_words(self) -> None:
        made = instrument(kernel("ld.global.u32 %r1, [%rd1];\nret;"), ["bounds:allocations=3", "block-counts"])
        layout = made.manifest.layout(LaunchShape(allocations=((0x1000, 64), (0x2000, 8))))
        words = struct.unpack(f"<{made.manifest.symbol_bytes // 8}Q", layout.words(1 << 32))

        assert words[0] == 1 << 32
        assert words[-6:] == (0x1000, 64, 0x2000, 8, 0, 0)
        with pytest.raises(ValueError, match="allocations=N"):
            made.manifest.layout(LaunchShape(allocations=((1, 1),) * 4))

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 2}', '{"version": 1, "symbol": 3}'])
    def test_what_is_no_manifest(self, text: str) -> None:
        with pytest.raises(ValueError):
            ProbeManifest.from_json(text)

    def test_the_sample_is_about_what_was_asked_for(self) -> None:
        assert 900 < sum([is_sampled(warp, 64) for warp in range(64_000)]) < 1100


class TestPlanted:
    """Faults put into the probes: each makes a test above fail."""

    def test_the_offset_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        good = probe_code.address

        def without_offset(routine: Routine, i: int, operand: Node, to: str) -> str | None:
            return re.sub(r", -?\d+;", ", 0;", good(routine, i, operand, to) or "", count=1)

        monkeypatch.setattr(probe_code, "address", without_offset)

        with pytest.raises(AssertionError):
            TestFaultsOfOthers().test_the_offset_is_part_of_the_address("ld.global.u32 %r1, [%rd1+16];", "add.s64 %a, %rd1, 16;")

    def test_the_mask_of_a_guarded_access_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(memory_trace, "under", lambda guard, text: probe_code.under("", text))

        with pytest.raises(AssertionError):
            TestFaultsOfOthers().test_a_guarded_access_counts_under_its_guard("@%p1", "@!%p1")

    def test_counters_are_lost_at_an_exit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(counting, "AtExits", functools.partial(AtExits, ways=("return",)))

        with pytest.raises(AssertionError):
            TestFaultsOfOthers().test_counters_are_kept_at_every_exit("@!%p1 exit;\nret;")

    def test_warps_are_rounded_down(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cycles, "warps_of_block", lambda to, a: probe_code.warps_of_block(to, a).replace("31", "0"))

        with pytest.raises(AssertionError):
            TestFaultsOfOthers().test_warps_of_a_block_that_is_no_multiple_of_32()

    def test_a_loop_runs_past_its_buffer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def without_bound(site: Site, code: str, converged: bool) -> Before:
            return Before(site, re.sub(r"setp\.lt\.and\.u64 (\S+), \S+, \S+, (\S+);", r"mov.pred \1, \2;", code), converged)

        monkeypatch.setattr(memory_trace, "Before", without_bound)

        with pytest.raises(AssertionError):
            TestFaultsOfOthers().test_a_row_that_the_buffer_has_not_is_not_written()
