"""`ptxkit profile --on machine`: every probe without a GPU or a driver. Numbers are worked out by hand, or from those of another probe."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import ptxkit
from ptxkit import rewriters
from ptxkit.cli import main
from ptxkit.rewriters.manifest import Column, Table
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.profiling import device, isolation
from ptxkit.rewriters.profiling.description import read

ROOT = Path(__file__).resolve().parents[2]
SCALE = ROOT / "fixtures" / "profiling" / "scale.ptx"
LAUNCH = ROOT / "fixtures" / "profiling" / "launch.toml"
PROBES = ("block-counts", "edge-counts", "warp-masks", "memory-trace", "sectors", "bank-conflicts", "values", "arguments", "cycles")


def profiled(out: Path, *probes: str, on: str = "machine", launch: Path = LAUNCH, code: int = 0) -> Any:
    chosen = [word for probe in probes for word in ("--probe", probe)]
    done = CliRunner().invoke(main, ["profile", str(SCALE), "--launch", str(launch), "--on", on, *chosen, "--json", str(out / "o.json")])
    assert done.exit_code == code, done.output
    return json.loads((out / "o.json").read_text())["launches"][0]


def column(launch: Any, table: str, name: str) -> list[Any]:
    columns = next(one["columns"] for one in launch["tables"] if one["name"] == table)
    return next(one["values"] for one in columns if one["name"] == name)


def test_every_probe_has_its_tables(tmp_path: Path) -> None:
    launch = profiled(tmp_path, *PROBES)

    assert (launch["outcome"], launch["on"], launch["seconds"], launch["registers"]) == ("equal", "machine", [], None)
    # 150 threads come, 140 of them go on; the loop is left after i % 4 rounds
    assert column(launch, "block-counts", "count") == [150, 140, 350, 210, 140]
    # all six warps load; the store is for the first seven threads of each block
    assert column(launch, "sectors", "requests") == [6, 3]
    assert column(launch, "sectors", "threads") == [140, 21]
    assert sum(column(launch, "warp-cycles", "threads")) == 150


def test_sectors_are_those_of_the_addresses(tmp_path: Path) -> None:
    launch = profiled(tmp_path, "sectors", "memory-trace")

    trace = next(one["columns"] for one in launch["tables"] if one["name"] == "memory-trace")
    rows = {one["name"]: one["values"] for one in trace}
    found: dict[int, int] = {}
    for line, size, text in zip(rows["line"], rows["bytes"], rows["addresses"], strict=True):
        lanes = [int(word, 16) for word in str(text).replace(",", " ").split() if word.startswith("0x") or word.isalnum()]
        found[line] = found.get(line, 0) + len({(at + n) // 32 for at in lanes for n in (0, size - 1)})
    counted = dict(zip(column(launch, "sectors", "line"), column(launch, "sectors", "sectors"), strict=True))
    assert counted == {line: found[line] for line in counted}


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    launch = profiled(tmp_path, "cycles")

    names = {one["name"] for table in launch["tables"] for one in table["columns"]}
    assert names == {"block", "warp", "warps", "threads"}
    assert all("the machine has no clock" in table["notes"][-1] for table in launch["tables"])


def test_only_clocks_are_left_out() -> None:
    plain = Table("t", "p", (Column("count", (1, 2)),))
    assert isolation.without_clock(plain) is plain


def test_a_fault_is_told_with_its_line(tmp_path: Path) -> None:
    launch = tmp_path / "launch.toml"
    launch.write_text(LAUNCH.read_text().replace("length = 140", "length = 14"))
    found = profiled(tmp_path, "block-counts", launch=launch, code=1)

    assert found["outcome"] == "failed"
    assert "running the original" in found["detail"]
    assert "outside" in found["detail"]


def test_auto_takes_the_machine_where_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", None)

    with pytest.raises(device.NoDevice):
        device.device_on("gpu", "sm_90a")
    found = device.device_on("auto", "sm_90a")
    assert (found.is_machine, found.architecture) == (True, "sm_90")


def test_from_python() -> None:
    x, y = np.arange(140, dtype="f4"), np.zeros(141, dtype="f4")
    with rewriters.instrumented(ptxkit.parse(SCALE.read_text()), ["block-counts"], on="machine") as run:
        run.launch("scale", x, y, 140, 8.0, grid=3, block=50)
        assert list(run.table("block-counts").column("count")) == [150, 140, 350, 210, 140]
    i = np.arange(140)
    assert (y[1:] == np.where(i % 50 < 7, x * 8 / 2 ** (i % 4), 0)).all()


@pytest.mark.parametrize("kernel", ["sample_2d", "fetch_1d", "surface_2d"])
def test_textures_and_surfaces(kernel: str) -> None:
    path = ROOT / "fixtures" / "kernels" / "texture.sm_90a.ptx"
    module = ptxkit.parse(path.read_text(), str(path))
    made = instrument(module, ["block-counts"])
    (launch, *_) = [one for one in read(str(path.parent / "launch.toml")) if one.kernel == kernel]

    found = isolation.profile(module.text, made.text, made.manifest, launch, repeat=0, on="machine")
    assert (found.outcome, found.on) == (isolation.Outcome.EQUAL, "machine"), found.detail


DIVERGENT = """.version 8.0
.target sm_80
.address_size 64
.visible .entry collatz(.param .u64 out)
{
	.reg .pred %p<4>;
	.reg .b32 %v, %t, %odd, %steps;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd0, [out];
	mov.u32 %t, %tid.x;
	add.u32 %v, %t, 1;
	mov.u32 %steps, 0;
	setp.eq.u32 %p0, %v, 1;
	@%p0 bra done;
loop:
	and.b32 %odd, %v, 1;
	setp.eq.u32 %p1, %odd, 1;
	@%p1 bra up;
	shr.u32 %v, %v, 1;
	bra next;
up:
	mad.lo.u32 %v, %v, 3, 1;
next:
	add.u32 %steps, %steps, 1;
	setp.gt.u32 %p2, %steps, 90;
	@%p2 bra late;
	setp.ne.u32 %p3, %v, 1;
	@%p3 bra loop;
done:
	mul.wide.u32 %rd1, %t, 4;
	add.u64 %rd2, %rd0, %rd1;
	st.global.u32 [%rd2], %steps;
	ret;
late:
	ret;
}
"""


def test_masks_in_loops_are_counted_alike_in_registers_and_in_memory(tmp_path: Path) -> None:
    def tables(probe: str) -> tuple[Table, ...]:
        with rewriters.instrumented(ptxkit.parse(DIVERGENT), [probe], on="machine") as run:
            run.launch("collatz", np.zeros(96, np.uint32), grid=1, block=96)
            return run.tables

    kept, direct = tables("warp-masks"), tables("warp-masks:kept=0")

    assert len(kept[0].rows()) == 8 and len(kept[1].rows()) > 20
    assert [table.rows() for table in kept] == [table.rows() for table in direct]


STEADY = """.version 7.0
.target sm_80
.address_size 64
.visible .entry sums(.param .u64 out, .param .u32 n)
{
	.reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
	.shared .align 4 .b8 tile[1024];
	mov.u32 %r0, %tid.x;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, 0;
	mov.u32 %r3, 0;
	and.b32 %r4, %r0, 3;
	setp.eq.u32 %p0, %r4, 3;
	@%p0 bra done;
outer:
	mov.u32 %r5, 0;
inner:
	add.u32 %r3, %r3, %r0;
	add.u32 %r5, %r5, 1;
	setp.le.u32 %p1, %r5, %r2;
	@%p1 bra inner;
	and.b32 %r6, %r2, 1;
	setp.eq.u32 %p2, %r6, 0;
	@%p2 bra even;
	xor.b32 %r3, %r3, %r2;
even:
	add.u32 %r2, %r2, 1;
	setp.lt.u32 %p3, %r2, %r1;
	@%p3 bra outer;
done:
	bar.sync 0;
	ld.param.u64 %rd0, [out];
	mad.wide.u32 %rd1, %r0, 4, %rd0;
	st.global.u32 [%rd1], %r3;
	ret;
}
"""


def test_masks_of_a_steady_loop_are_read_once_before_it() -> None:
    def run(probe: str) -> tuple[str, list[Any], np.ndarray[Any, Any]]:
        module = ptxkit.parse(STEADY)
        out = np.zeros(80, np.uint32)
        with rewriters.instrumented(module, [probe], on="machine") as run:
            run.launch("sums", out, 7, grid=2, block=80)
            return rewriters.instrument(module, [probe]).text, [table.rows() for table in run.tables], out

    kept, direct = run("warp-masks:kept=9"), run("warp-masks:kept=0")

    assert kept[0].count("activemask") == 3 and direct[0].count("activemask") == 7
    assert kept[1] == direct[1] and np.array_equal(kept[2], direct[2])
