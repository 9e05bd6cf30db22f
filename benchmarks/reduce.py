"""`ptxkit reduce` on five planted bugs: python benchmarks/reduce.py [--only NAME] [--jobs N] [--most BYTES]

Each bug is planted into a fixture of some thousand instructions, and the test is a command as a user would write it:
    message   ptxas says that it injects a fence that wgmma lacks (needs ptxas)
    miscompare   two meanings of the integer instructions give different registers; one of them shifts a negative number wrongly
    crash     a stand-in for a compiler is killed by SIGSEGV where a kernel has a shuffle and a barrier in this order
    lint      `ptxkit lint --select C001` reports something
    time-out  a stand-in for a compiler does not end where a kernel has a loop with a certain atomic in it
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import attrs

import ptxkit
from ptxkit import files

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "fixtures" / "kernels"
PYTHON = sys.executable

MISCOMPARE = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import interpreter
import ptxkit
from ptxkit.analyses import routines

def final(wrong):
    def value(a, width):
        return a if wrong else before(a, width)
    before = interpreter.signed
    results = []
    for routine in routines(ptxkit.parse(open(sys.argv[1]).read())):
        thread = interpreter.Thread(routine, {{"%tid.x": 5}}, {{}})
        if wrong:
            arithmetic = thread.execute
            def execute(opcode, operands):
                return arithmetic(opcode.replace("shr.s32", "shr.u32"), operands)
            thread.execute = execute
        steps = list(thread.run())
        results.append(steps[-1][1] if steps else {{}})
    return results

try:
    differ = final(False) != final(True)
except Exception:
    sys.exit(1)
sys.exit(0 if differ else 1)
"""

CRASH = """
awk '/shfl\\.sync\\.bfly/ {{ seen = 1 }} seen && /bar\\.sync/ {{ found = 1 }} END {{ exit !found }}' "$1" && kill -SEGV $$
exit 0
"""

TIMEOUT = """
awk '/^[$A-Za-z_0-9]+:/ {{ label[substr($1, 1, length($1) - 1)] = 1 }}
     /atom\\.shared\\.cas/ {{ atomic = 1 }}
     /bra/ {{ target = $NF; sub(";", "", target); if (label[target] && atomic) found = 1 }}
     END {{ exit !found }}' "$1" && sleep 60
exit 0
"""


@attrs.frozen
class Bug:
    """A planted bug: its name, the PTX that has it, and the command that succeeds as long as it is there."""

    name: str
    text: str
    command: str


def fixture(name: str) -> str:
    return files.read(str(KERNELS / f"{name}.ptx"))


def joined(*names: str) -> str:
    """Several fixtures as one module."""
    first, *others = [fixture(name) for name in names]
    lines = [line for text in others for line in text.split("\n") if not line.startswith((".version", ".target", ".address_size"))]
    return "\n".join([first, *lines])


def message(folder: Path) -> Bug | None:
    if shutil.which("ptxas") is None:
        return None
    text = joined("wgmma_gemm.sm_90a", "mma_gemm.sm_90a", "tma_tensor.sm_90a", "scan.sm_90a")
    # one of the fences is lost
    at = text.index("wgmma.fence.sync.aligned;")
    text = text[:at] + text[at:].replace("wgmma.fence.sync.aligned;", "", 1)
    return Bug("message", text, "ptxas -arch=sm_90a {} -o /dev/null 2>&1 | grep -q 'warpgroup.arrive is injected'")


def miscompare(folder: Path) -> Bug:
    chance = random.Random(7)
    lines, known = ["mov.u32 %r0, %tid.x;", "mov.b32 %r1, -12345;"], 2
    for i in range(1200):
        operation = chance.choice(["add.s32", "sub.s32", "xor.b32", "and.b32", "or.b32", "min.s32", "max.u32", "mul.lo.s32"])
        a, b = chance.randrange(max(known - 40, 0), known), chance.randrange(known)
        lines.append(f"{operation} %r{known}, %r{a}, %r{b};")
        known += 1
        if i == 700:
            lines.append(f"or.b32 %r{known}, %r{known - 1}, -2147483648;\n    shr.s32 %r{known + 1}, %r{known}, 3;")
            known += 2
    body = "\n    ".join([f".reg .b32 %r<{known}>;", *lines, "ret;"])
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry chain()\n{{\n    {body}\n}}\n"
    script = folder / "miscompare.py"
    script.write_text(MISCOMPARE.format(root=str(ROOT), tests=str(ROOT / "tests" / "analyses")))
    return Bug("miscompare", text, f"{PYTHON} {script} {{}}")


def crash(folder: Path) -> Bug:
    text = joined("softmax.sm_80", "fp64.sm_80", "transpose.sm_80", "histogram.sm_80", "triton_softmax.sm_80")
    script = folder / "crash.sh"
    script.write_text(CRASH.format())
    return Bug("crash", text, f"sh {script} {{}} 2> /dev/null; test $? -ge 128")


def lint(folder: Path) -> Bug:
    text = joined("softmax.sm_80", "mma_gemm.sm_80", "scan.sm_80", "half_bf16.sm_80", "fast_math.sm_80")
    planted = """
.visible .entry planted(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    setp.lt.u32 %p1, %r1, 7;
    @!%p1 bra over;
    bar.sync 0;
over:
    st.global.u32 [%rd1], %r1;
    ret;
}
"""
    return Bug("lint", text + planted, f"{PYTHON} -m ptxkit lint --select C001 --no-cache {{}} > /dev/null 2>&1; test $? = 1")


def timeout(folder: Path) -> Bug:
    text = joined("atomics64.sm_80", "compact.sm_80", "coop_groups.sm_80", "vector_loads.sm_80")
    planted = """
.visible .entry lock(.param .u64 out)
{
    .reg .pred %p<3>;
    .reg .b32 %r<4>;
    .shared .b32 word;
    mov.b32 %r1, word;
again:
    atom.shared.cas.b32 %r2, [%r1], 0, 1;
    setp.ne.s32 %p1, %r2, 0;
    @%p1 bra again;
    ret;
}
"""
    script = folder / "hang.sh"
    script.write_text(TIMEOUT.format())
    return Bug("time-out", text + planted, f"timeout 0.5 sh {script} {{}}; test $? = 124")


BUGS: tuple[Callable[[Path], Bug | None], ...] = (message, miscompare, crash, lint, timeout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave what was reduced in this folder")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    bad = 0
    print(f"{'bug':12} {'before':>7} {'left':>5} {'part':>7} {'tests':>6} {'seconds':>8} {'of CPU':>7}")
    for plant in BUGS:
        with tempfile.TemporaryDirectory() as name:
            folder = options.keep or Path(name)
            bug = plant(folder)
            if bug is None or options.only not in (None, bug.name):
                continue
            path, out = folder / f"{bug.name}.ptx", folder / f"{bug.name}.reduced.ptx"
            files.write(str(path), bug.text)
            out.unlink(missing_ok=True)
            used, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            command = [PYTHON, "-m", "ptxkit", "reduce", str(path), "--test", bug.command, "-o", str(out), "--jobs", str(options.jobs)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            took, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
            if done.returncode:
                print(f"{bug.name}: {done.stderr.strip()}")
                bad += 1
                continue
            counts = [sum(len(one.instructions) for one in ptxkit.parse(text).functions) for text in (bug.text, files.read(str(out)))]
            tests = done.stdout.partition(" tests")[0].rpartition(" ")[2]
            part = counts[1] / counts[0]
            bad += part > 0.05
            print(f"{bug.name:12} {counts[0]:7} {counts[1]:5} {part:7.2%} {tests:>6} {took:8.1f} {cpu:7.1f}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
