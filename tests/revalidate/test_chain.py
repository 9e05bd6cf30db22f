"""Who is asked, and what becomes of compilers that fail. Stand-ins play the compilers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

import ptxkit
from ptxkit import Outcome
from ptxkit.revalidation import Verdict

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
GOOD = HEAD + ".entry k() {\n    .reg .b32 %r<3>;\n    mov.b32 %r2, 0;\n    mov.b32 %r1, 0;\n    ret;\n}\n"
HANGS = 6
"""Seconds after which a compiler counts as hung: enough for a child process to start on a busy computer."""
BAD = GOOD.replace("%r1, 0", "%r99, 0")
EXTERN = GOOD.replace(".entry", ".extern .func ext();\n.entry")


def revalidate(text: str, *using: str, timeout: float = 60, target: str | None = None, relocatable: bool = False) -> Verdict:
    return ptxkit.revalidate(ptxkit.parse(text), target, using, timeout, relocatable=relocatable)


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Something in the environment by which to know what a test has started, and what that has started."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("processes cannot be looked at here")
    text = f"PTXKIT_TEST_MARK={uuid.uuid4()}"
    monkeypatch.setenv(*text.split("="))
    return text


def left_over(mark: str) -> list[str]:
    """The processes with that mark that are there for longer than dying takes, and the children that nobody has waited for."""
    for _ in range(600):
        found = _processes(mark)
        if not found:
            break
        time.sleep(0.1)
    return found


def _processes(mark: str) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdecimal() and mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text())
        except OSError:
            pass
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    mine = children.read_text().split() if children.exists() else []
    return found + [child for child in mine if ") Z " in Path(f"/proc/{child}/stat").read_text()]


@pytest.fixture
def driver(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-in is the driver; what it does, FAKE_CUDA says."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(libcuda))
    monkeypatch.delenv("FAKE_CUDA", raising=False)
    return monkeypatch


@pytest.fixture
def linker(libnvjitlink: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The stand-in is nvJitLink; what it does, FAKE_NVJITLINK says."""
    monkeypatch.syspath_prepend(str(libnvjitlink))
    monkeypatch.delenv("FAKE_NVJITLINK", raising=False)
    return monkeypatch


@pytest.fixture
def assembler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program that is found as ptxas; a test writes it."""
    if os.name != "posix":
        pytest.skip("the stand-in is a shell script")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "ptxas"


def write(program: Path, body: str) -> None:
    version = 'if [ "$1" = --version ]; then echo "Cuda compilation tools, release 13.0, V13.0.99"; exit 0; fi'
    program.write_text(f"#!/bin/sh\n{version}\nfor last; do :; done\n{body}\n")
    program.chmod(0o755)


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any validator."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("ptxkit.revalidation.wheels.find", lambda *patterns: [])
    monkeypatch.setattr("ptxkit.revalidation.nvjitlink._libraries", lambda: ["libnothing.so"])


class TestDriver:
    def test_success(self, driver: pytest.MonkeyPatch) -> None:
        verdict = revalidate(GOOD, "driver", "nvjitlink")

        assert verdict.ok, verdict
        assert (verdict.validator, verdict.version, verdict.target, verdict.skipped) == ("driver", "13.0", "sm_90", ())
        k = verdict.kernel("k")
        assert (k.shared, k.constant, k.stack, k.registers) == (101, 102, 103, 104)
        assert (k.spill_stores, k.spill_loads, k.barriers) == (8, 16, 1)
        assert "noise" not in verdict.log

    def test_success_in_this_process_of_another(self, driver: pytest.MonkeyPatch) -> None:
        program = (
            "import ptxkit\n"
            f"verdict = ptxkit.revalidate(ptxkit.parse({GOOD!r}), using=['driver'], isolated=False)\n"
            "print(verdict.outcome, verdict.kernel('k').registers)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

        assert done.stdout.endswith("valid 104\n")

    def test_error_with_a_log(self, driver: pytest.MonkeyPatch) -> None:
        verdict = revalidate(BAD, "driver")

        assert verdict.outcome is Outcome.INVALID
        (diagnostic,) = verdict.diagnostics
        assert (diagnostic.message, diagnostic.span.line, diagnostic.span.column) == ("Unknown symbol '%r99'", 7, 13)

    def test_error_without_a_log(self, driver: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", "error without a log")

        verdict = revalidate(GOOD, "driver")

        assert verdict.outcome is Outcome.INVALID
        assert "CUDA_ERROR_INVALID_PTX" in verdict.diagnostics[0].message

    def test_false_success(self, driver: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", "false success")

        assert revalidate(EXTERN, "driver").outcome is Outcome.INVALID
        assert revalidate(EXTERN, "driver", relocatable=True).ok

    def test_it_admits_a_bug(self, driver: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", "bug")

        verdict = revalidate(GOOD, "driver", "nvjitlink")

        assert verdict.outcome is Outcome.COMPILER_BUG
        assert "C7907" in verdict.reason

    @pytest.mark.parametrize(("mode", "signal"), [("abort", "SIGABRT"), ("segfault", "SIGSEGV")])
    def test_crash(self, mode: str, signal: str, driver: pytest.MonkeyPatch, mark: str) -> None:
        driver.setenv("FAKE_CUDA", mode)

        verdict = revalidate(GOOD, "driver", "nvjitlink")

        assert verdict.outcome is Outcome.COMPILER_BUG
        assert verdict.reason == f"it was killed by {signal}"
        assert verdict.version == "13.0"
        assert left_over(mark) == []

    def test_hang(self, driver: pytest.MonkeyPatch, mark: str) -> None:
        driver.setenv("FAKE_CUDA", "hang")

        verdict = revalidate(GOOD, "driver", timeout=HANGS)

        assert verdict.outcome is Outcome.COMPILER_BUG
        assert verdict.reason == f"no answer in {HANGS} s"
        assert left_over(mark) == []

    def test_it_ends_the_process(self, driver: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", "exit")

        verdict = revalidate(GOOD, "driver")

        assert verdict.outcome is Outcome.COMPILER_BUG
        assert "without an answer" in verdict.reason

    @pytest.mark.parametrize(
        ("mode", "reason"),
        [
            ("hang in cuInit", f"did not load within {HANGS} s"),
            ("no device", "CUDA_ERROR_NO_DEVICE"),
            ("no compiler", "JIT_COMPILER_NOT_FOUND"),
        ],
    )
    def test_a_driver_that_does_not_work_is_no_compiler_bug(self, mode: str, reason: str, driver: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", mode)

        verdict = revalidate(GOOD, "driver", timeout=HANGS if mode == "hang in cuInit" else 600)

        assert verdict.outcome is Outcome.UNAVAILABLE
        assert reason in verdict.skipped[0].reason

    @pytest.mark.parametrize(("named", "wanted"), [("sm_100", None), ("sm_80", "sm_80"), ("sm_100a", None), ("sm_101", None)])
    def test_what_the_gpu_does_not_run(self, named: str, wanted: str | None, driver: pytest.MonkeyPatch) -> None:
        verdict = revalidate(GOOD.replace("sm_80", named), "driver", target=wanted)

        assert verdict.outcome is Outcome.UNAVAILABLE
        assert "the GPU is of sm_90" in verdict.skipped[0].reason

    def test_the_next_is_asked(self, driver: pytest.MonkeyPatch, linker: pytest.MonkeyPatch) -> None:
        driver.setenv("FAKE_CUDA", "no device")

        verdict = revalidate(GOOD, "driver", "nvjitlink")

        assert verdict.ok
        assert verdict.validator == "nvjitlink"
        assert [one.validator for one in verdict.skipped] == ["driver"]


class TestNvJitLink:
    def test_success(self, linker: pytest.MonkeyPatch) -> None:
        verdict = revalidate(GOOD, "nvjitlink")

        assert verdict.ok
        assert (verdict.version, verdict.cubin) == ("13.99", b"\x7fELF")

    def test_false_success(self, linker: pytest.MonkeyPatch) -> None:
        linker.setenv("FAKE_NVJITLINK", "false success")

        verdict = revalidate(EXTERN, "nvjitlink")

        assert verdict.outcome is Outcome.INVALID
        assert verdict.cubin is None

    @pytest.mark.parametrize(
        ("mode", "reason"), [("abort", "it was killed by SIGABRT"), ("internal error", "it reports an internal error")]
    )
    def test_bug(self, mode: str, reason: str, linker: pytest.MonkeyPatch) -> None:
        linker.setenv("FAKE_NVJITLINK", mode)

        verdict = revalidate(GOOD, "nvjitlink")

        assert (verdict.outcome, verdict.reason) == (Outcome.COMPILER_BUG, reason)

    @pytest.mark.parametrize("mode", ["hang", "hang with children"])
    def test_hang(self, mode: str, linker: pytest.MonkeyPatch, mark: str) -> None:
        linker.setenv("FAKE_NVJITLINK", mode)

        verdict = revalidate(GOOD, "nvjitlink", timeout=HANGS)

        assert (verdict.outcome, verdict.reason) == (Outcome.COMPILER_BUG, f"no answer in {HANGS} s")
        assert left_over(mark) == []

    def test_no_architecture(self, linker: pytest.MonkeyPatch) -> None:
        linker.setenv("FAKE_NVJITLINK", "unknown architecture")

        assert revalidate(GOOD, "nvjitlink").outcome is Outcome.UNAVAILABLE


class TestPtxas:
    def test_crash(self, assembler: Path) -> None:
        write(assembler, "kill -SEGV $$")

        verdict = revalidate(GOOD, "ptxas")

        assert (verdict.outcome, verdict.reason, verdict.version) == (Outcome.COMPILER_BUG, "it was killed by SIGSEGV", "13.0.99")

    def test_crash_behind_a_shell(self, assembler: Path) -> None:
        write(assembler, "sh -c 'kill -ABRT $$'; exit $?")

        assert revalidate(GOOD, "ptxas").reason == "it was killed by SIGABRT"

    def test_hang(self, assembler: Path, mark: str) -> None:
        write(assembler, "sleep 100 & sleep 100")

        verdict = revalidate(GOOD, "ptxas", timeout=HANGS)

        assert (verdict.outcome, verdict.reason) == (Outcome.COMPILER_BUG, f"no answer in {HANGS} s")
        assert left_over(mark) == []

    def test_it_admits_a_bug(self, assembler: Path) -> None:
        write(assembler, "echo 'ptxas fatal   : Internal error: no opcode' >&2; exit 255")

        assert revalidate(GOOD, "ptxas").outcome is Outcome.COMPILER_BUG

    @pytest.mark.parametrize("body", ["exit 0", "exit 127", "exit 1"])
    def test_neither_code_nor_message_is_no_verdict(self, body: str, assembler: Path) -> None:
        write(assembler, body)

        assert revalidate(GOOD, "ptxas").outcome is Outcome.UNAVAILABLE

    def test_code_and_an_error_is_not_valid(self, assembler: Path) -> None:
        write(assembler, "echo 'ptxas error   : something' >&2; echo > $last")

        assert revalidate(GOOD, "ptxas").outcome is Outcome.INVALID

    def test_not_a_ptxas(self, assembler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assembler.write_text("no program")
        assembler.chmod(0o755)
        monkeypatch.delenv("CUDA_HOME", raising=False)
        monkeypatch.setattr("ptxkit.revalidation.wheels.find", lambda *patterns: [])

        assert revalidate(GOOD, "ptxas").outcome is Outcome.UNAVAILABLE

    def test_cuda_home(self, nothing: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        if os.name != "posix":
            pytest.skip("the stand-in is a shell script")
        (tmp_path / "bin").mkdir()
        write(tmp_path / "bin" / "ptxas", "printf code > $last")
        monkeypatch.setenv("CUDA_HOME", str(tmp_path))

        verdict = revalidate(GOOD, "ptxas")

        assert (verdict.ok, verdict.version, verdict.cubin) == (True, "13.0.99", b"code")


def test_without_any_validator(nothing: None) -> None:
    verdict = ptxkit.revalidate(ptxkit.parse(GOOD), using=["nvjitlink", "ptxas"], isolated=False)

    assert verdict.outcome is Outcome.UNAVAILABLE
    assert not verdict.ok
    assert "pip install -U 'ptxkit[nvjitlink]'" in verdict.reason
    assert [one.validator for one in verdict.skipped] == ["nvjitlink", "ptxas"]


def test_an_architecture_that_there_is_not_is_no_compiler_bug() -> None:
    """nvJitLink ends the process then."""
    verdict = revalidate(GOOD, "nvjitlink", "ptxas", target="sm_5")

    assert verdict.outcome is Outcome.UNAVAILABLE


def test_without_a_word_ours_are_said() -> None:
    for text, why in (("", "names no `.version`"), (f"\ufeff{GOOD}", "byte order mark")):
        verdict = revalidate(text, "nvjitlink")
        if verdict.outcome is Outcome.UNAVAILABLE:
            pytest.skip(verdict.reason)
        assert verdict.outcome is Outcome.INVALID
        assert why in verdict.diagnostics[0].message


def test_nobody_asked_is_not_valid() -> None:
    assert revalidate(GOOD).outcome is Outcome.UNAVAILABLE


def test_a_wrong_call() -> None:
    with pytest.raises(ValueError, match="no validator is called 'nvcc'"):
        revalidate(GOOD, "nvcc")
    with pytest.raises(ValueError, match="seconds"):
        revalidate(GOOD, "ptxas", timeout=0)
    with pytest.raises(ValueError, match="seconds"):
        revalidate(GOOD, "ptxas", timeout=float("nan"))
    with pytest.raises(ValueError, match="sm_90"):
        revalidate(GOOD, "ptxas", target="compute_90")


def test_importing_loads_nothing() -> None:
    program = (
        "import sys, ptxkit, ptxkit.revalidation\n"
        "loaded = [name for name in sys.modules if name.startswith(('cuda', 'nvidia', 'ctypes', 'subprocess', 'ptxkit.revalidation.'))]\n"
        "assert not loaded, loaded\n"
        "ptxkit.revalidate\n"
        "loaded = [name for name in sys.modules if name.startswith(('cuda', 'nvidia', 'ctypes'))]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
