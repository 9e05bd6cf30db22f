"""Programs that know nothing of the machine, run with it as their GPU."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ptxkit.machine.driver import has_bindings, library

ROOT = Path(__file__).resolve().parents[3]
RACE = """
from cuda.bindings import driver as cuda
import ctypes
def ok(result):
    assert not result[0], result
    return result[1] if len(result) > 1 else None
ok(cuda.cuInit(0)); ok(cuda.cuCtxSetCurrent(ok(cuda.cuDevicePrimaryCtxRetain(0))))
text = b'''.version 8.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{ .reg .b64 %a; .reg .b32 %r; ld.param.u64 %a, [out]; mov.u32 %r, %tid.x; st.global.u32 [%a], %r; ret; }\\0'''
kernel = ok(cuda.cuModuleGetFunction(ok(cuda.cuModuleLoadData(text)), b"k"))
held = ctypes.c_uint64(int(ok(cuda.cuMemAlloc(64))))
places = (ctypes.c_void_p * 1)(ctypes.addressof(held))
ok(cuda.cuLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, 0, ctypes.addressof(places), 0))
ok(cuda.cuCtxSynchronize())
print("ended")
"""


def run(*words: str, **environment: str) -> Any:
    command = [sys.executable, "-m", "ptxkit.machine", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, **environment}, check=False, timeout=200)


def needs(*modules: str) -> None:
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ImportError:
            found = None
        if found is None:
            pytest.skip(f"{module} is not installed")


@pytest.mark.parametrize("example", ["driver", "cuda_core_module"])
def test_the_examples_run_as_they_are(example: str) -> None:
    if example != "driver":
        needs("cuda.core")
    done = run(str(ROOT / "examples" / f"{example}.py"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "checked"


@pytest.mark.parametrize(("check", "code"), [((), 0), (("--check", "races"), 1)])
def test_what_the_checks_find_is_said_at_the_end(tmp_path: Path, check: tuple[str, ...], code: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(RACE)
    done = run(*check, str(program))
    assert (done.returncode, done.stdout) == (code, "ended\n"), done.stderr
    assert ("race" in done.stderr) == bool(code)


def test_a_kernel_that_cannot_go_on_is_said_with_its_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        RACE.replace("ok(cuda.cuCtxSynchronize())", "print(cuda.cuCtxSynchronize()[0].name)").replace("[%a], %r", "[%a+4096], %r")
    )
    done = run(str(program))
    assert done.returncode == 1 and "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "thread (0,0,0) of CTA (0,0,0)" in done.stderr


def test_a_program_has_its_own_arguments(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; print(sys.argv[1:])")
    assert run("--target", "sm_80", str(program), "--check", "x").stdout == "['--check', 'x']\n"
    assert run("--check", "nothing", str(program)).returncode == 2
    assert run(str(tmp_path / "missing.py")).returncode == 2


def test_a_library_is_written_whose_functions_are_python() -> None:
    if not library.supported():
        pytest.skip("no library can be made for this system")
    add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(lambda a, b: a + b)
    loaded = library.load("libptxkit_test.so.1", ["add", "sum"], lambda _: ctypes.cast(add, ctypes.c_void_p).value or 0)
    assert ctypes.CDLL("libptxkit_test.so.1").add(2, 3) == loaded.sum(4, 1) == 5
    with pytest.raises(OSError, match="already"):
        library.load("libptxkit_test.so.1", [], lambda _: 0)


def test_the_bindings_are_the_real_ones_where_they_are_installed() -> None:
    if not has_bindings():
        pytest.skip("cuda-bindings is not installed")
    program = (
        "from ptxkit.machine import driver; driver.install('sm_80')\n"
        "from cuda.bindings import driver as d; d.cuInit(0)\n"
        "print(d.__file__.endswith('.so'), d.cuDeviceComputeCapability(0)[1:])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "True (8, 0)\n"
