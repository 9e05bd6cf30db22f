"""What the tools for runs on a GPU do before and after them; no GPU is needed."""

from __future__ import annotations

import gzip
import json
import random
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import garbage
import launcher
import plan
import prepare
import probes
import pytest

from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.registers.liveness import liveness
from ptxkit.analyses.registers.registers import registers
from ptxkit.syntax import parse

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n) {
\t.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<2>;
\tld.param.u64 %rd1, [out];
\tld.param.u32 %r1, [n];
\tmov.u32 %r2, %tid.x;
\tmov.u32 %r3, 0;
$loop:
\t.pragma "nounroll";
\tadd.u32 %r3, %r3, %r2;
\tadd.u32 %r1, %r1, -1;
\tsetp.ne.u32 %p1, %r1, 0;
\t@%p1 bra $loop;
\tmul.wide.u32 %rd2, %r2, 4;
\tadd.u64 %rd3, %rd1, %rd2;
\tst.global.u32 [%rd3], %r3;
\tret;
}
"""
LAUNCH = {"id": "k", "entry": "k", "grid": [2, 1, 1], "block": [32, 2, 1]}


def test_every_dead_register_is_written_at_every_block() -> None:
    module = parse(KERNEL)
    (routine,) = routines(module)
    found = garbage.spoiled(module, 0)
    table, live = registers(routine).table, liveness(routine)
    assert found.blocks == len(live.before)
    assert found.writes == sum([len(table) - before.bit_count() for before in live.before])
    (again,) = routines(parse(found.text))
    assert registers(again).unknown == frozenset()


def test_garbage_stands_behind_label_and_pragma() -> None:
    text = garbage.spoiled(parse(KERNEL), 1).text
    loop = text[text.index("$loop:") :]
    assert loop.index(".pragma") < loop.index("setp.") < loop.index("add.u32")
    assert "%r3" not in loop[: loop.index("add.u32")]


@pytest.mark.parametrize("name", ["%r3", "%r1", "%rd1", "%r2"])
def test_planted_faults_are_in_live_registers(name: str) -> None:
    faults = garbage.planted(parse(KERNEL), "k", random.Random(1), 100)
    assert any(fault.where.startswith(f"{name} in block") for fault in faults)
    assert all("trap;" in fault.trapped and "trap;" not in fault.text for fault in faults)


def rows_of(kernel: probes.Probed, thread: int, n: int, pointer: int) -> bytes:
    """What a thread of the kernel would keep, computed by hand."""
    tid = thread % 64 % 32
    row = b""
    for watch in kernel.watches:
        text = " ".join(kernel.routine.instructions[watch.instruction].body_text.split())
        seen = {
            "ld.param.u64 %rd1, [out];": [pointer],
            "ld.param.u32 %r1, [n];": [n],
            "mov.u32 %r2, %tid.x;": [tid],
            "mov.u32 %r3, 0;": [0],
            "add.u32 %r3, %r3, %r2;": [tid * (i + 1) for i in range(n)],
            "add.u32 %r1, %r1, -1;": list(range(n))[::-1],
            "setp.ne.u32 %p1, %r1, 0;": [1] * (n - 1) + [0],
            "mul.wide.u32 %rd2, %r2, 4;": [tid * 4],
            "add.u64 %rd3, %rd1, %rd2;": [pointer + tid * 4],
        }[text]
        ones = zeros = 0
        for value in seen:
            ones, zeros = ones | value, zeros | (~value & (2**64 - 1))
        row += struct.pack("<4Q", len(seen), seen[-1], ones, zeros)
    return row


def test_the_judge_agrees_with_a_right_run_and_not_with_a_wrong_one() -> None:
    kernel = probes.probed(parse(KERNEL), "k")
    pointer, n = 0x7F0000001000, 5
    arguments = [struct.pack("<Q", pointer), struct.pack("<I", n)]
    row = rows_of(kernel, 100, n, pointer)
    tally = probes.judge(kernel, LAUNCH, arguments, 100, row)
    assert tally.contradictions == [] and tally.exact >= 6
    shifted = probes.judge(kernel, LAUNCH, arguments, 100, row, shift=1)
    assert len([said for said in shifted.contradictions if " is 0x" in said]) == tally.exact
    other = probes.judge(kernel, LAUNCH, arguments, 101, row)
    assert any("%tid.x" in said for said in other.contradictions)


def test_spoiled_probe_differs_in_one_slot() -> None:
    module = parse(KERNEL)
    kernel = probes.probed(module, "k")
    (slot, *_) = probes.certain_slots(kernel)
    straight, spoiled = kernel.text, probes.probed(module, "k", spoil=slot).text
    assert len(spoiled) - len(straight) == len("add.u64 %pk_v, %pk_v, 1;") + 1


def test_special_registers() -> None:
    found = probes.special_registers({"grid": [3, 2, 1], "block": [8, 4, 2], "cluster": [3, 1, 1]}, 64 * 4 + 32 + 8 + 3)
    assert (found["%ctaid.x"], found["%ctaid.y"], found["%tid.x"], found["%tid.y"], found["%tid.z"]) == (1, 1, 3, 1, 1)
    assert (found["%laneid"], found["%cluster_ctarank"], found["%nctaid.x"]) == (11, 1, 3)


def test_buffers_are_filled_as_the_table_says() -> None:
    assert launcher.filled("i32", 3, "iota", None, 1) == struct.pack("<3i", 0, 1, 2)
    assert launcher.filled("bf16", 2, "iota", None, 1) == struct.pack("<2H", 0, 0x3F80)
    assert launcher.filled("f64", 4, "zeros", None, 1) == bytes(32)
    small = launcher.filled("u8", 100, "random", 5, 1)
    assert max(small) < 5 and small == launcher.filled("u8", 100, "random", 5, 1) != launcher.filled("u8", 100, "random", 5, 2)
    assert len(launcher.filled("i8", 100, "random", None, 1)) == 100


def test_outputs_are_compared_as_the_table_says() -> None:
    def output(compare: str, data: bytes) -> launcher.Output:
        return launcher.Output(0, 2, compare, data)

    assert launcher.differences([output("bits", b"abcd")], [output("bits", b"abcd")]) == []
    assert launcher.differences([output("bits", b"abcd")], [output("bits", b"cdab")]) != []
    assert launcher.differences([output("sorted", b"abcd")], [output("sorted", b"cdab")]) == []
    assert launcher.differences([output("sorted", b"abcd")], [output("sorted", b"cdaa")]) != []
    assert launcher.differences([output("none", b"abcd")], [output("none", b"zzzz")]) == []


def test_a_child_that_hangs_or_dies_costs_its_launch_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = {
        "fixture": "f",
        "target": "t",
        "kernels": [{"id": "k", "entry": "k"}],
        "variants": [{"name": str(n), "about": {}} for n in range(4)],
    }
    stub = tmp_path / "stub.py"
    stub.write_text(
        "import sys, time, json\n"
        "record, first = sys.argv[2], int(sys.argv[5])\n"
        "for n in range(first, 4):\n"
        "    open(record, 'a').write(json.dumps({'step': n}) + '\\n')\n"
        "    if n == 1: time.sleep(600)\n"
        "    if n == 2: sys.exit(9)\n"
        "    open(record, 'a').write(json.dumps({'done': n, 'verdict': 'equal', 'detail': ''}) + '\\n')\n"
    )
    monkeypatch.setattr(launcher, "__file__", str(stub))
    found = launcher.work(tmp_path / "plan.zip", 0, job, 5.0)
    assert [result["verdict"] for result in found] == ["equal", "hung", "error", "equal"]
    assert [result["variant"] for result in found] == ["0", "1", "2", "3"]


def test_a_plan_holds_what_the_launcher_reads(tmp_path: Path) -> None:
    path = tmp_path / "plan.zip"
    (fixture,) = plan.fixtures(["sm_80"], ["softmax"], shapes=True)
    count = plan.write(path, [(fixture, [plan.Variant("control", fixture.text), plan.Variant("one", fixture.text, only="softmax_rows")])])
    with zipfile.ZipFile(path) as archive:
        (job,) = json.loads(archive.read("plan.json"))["jobs"]
        assert archive.read(job["original"]).decode() == fixture.text
    assert len(list(launcher.steps(job))) == count == 6


@pytest.mark.gpu
@pytest.mark.parametrize("kind", sorted(prepare.KINDS))
def test_small_run(kind: str, tmp_path: Path) -> None:
    try:
        launcher.start()
    except (OSError, launcher.DriverError) as error:
        pytest.skip(f"no GPU: {error}")
    here = Path(prepare.__file__).parent
    for command in (
        ["prepare.py", kind, "--only", "softmax", "scan", "-o", str(tmp_path / "plan.zip")],
        ["launcher.py", str(tmp_path / "plan.zip"), str(tmp_path / "record.json.gz"), "--workers", "2"],
        ["figures.py", str(tmp_path / "record.json.gz")],
    ):
        subprocess.run([sys.executable, str(here / command[0]), *command[1:]], check=True)
    with gzip.open(tmp_path / "record.json.gz", "rt") as lines:
        assert json.load(lines)["results"]
