"""Many files: processes and the cache."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ptxkit.cli import _cache, _job, _processes, main
from ptxkit.cli._job import Examined, Job
from ptxkit.diagnostics import Diagnostic, Origin, Related, Severity, Span

KERNELS = Path(__file__).resolve().parents[2] / "fixtures" / "kernels"
BAD = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n.reg .f32 a;\nmov.f32 nowhere, 0f00000000;\nret;\n}\n"


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(6):
        (tmp_path / f"{i}.ptx").write_text(BAD.replace("nowhere", f"nowhere{i}") + "// longer\n" * i)
    return tmp_path


def test_two_processes_find_what_one_finds(folder: Path) -> None:
    one = run("lint", "--no-cache", "--jobs", "1", "--format", "json", str(folder))
    two = run("lint", "--no-cache", "--jobs", "2", "--format", "json", str(folder))

    assert len(json.loads(one.stdout)["diagnostics"]) == 6
    assert two.stdout == one.stdout
    assert two.exit_code == one.exit_code == 1


def test_several_processes_examine_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxkit.analyses.linting import linting

    monkeypatch.setattr(linting, "GROUP", 1)
    kernel = BAD[BAD.index(".entry") :].replace("mov.f32 nowhere, 0f00000000;", "bar.sync 17;\nbar.warp.sync 0;")
    path = tmp_path / "many.ptx"
    path.write_text(BAD[: BAD.index(".entry")] + "".join([kernel.replace("k()", f"k{i}()") for i in range(5)]))
    one, two = (run("lint", "--no-cache", "--jobs", jobs, "--format", "json", str(path)) for jobs in ("1", "2"))

    assert {found["function"] for found in json.loads(one.stdout)["diagnostics"]} == {f"k{i}" for i in range(5)}
    assert two.stdout == one.stdout
    assert two.exit_code == one.exit_code == 1


def test_a_script_that_is_not_guarded(folder: Path) -> None:
    """Processes do not run the script that calls the command, so it needs no `if __name__ == "__main__"`."""
    script = folder / "call.py"
    script.write_text("from ptxkit.cli import main\nprint('once')\nmain()\n")
    command = [sys.executable, str(script), "lint", "--no-cache", "--jobs", "2", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout.count("once"), done.stderr) == (1, 1, "6 errors in 6 files\n")
    assert done.stdout.count("nowhere") >= 6


def test_processes_that_cannot_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_processes, "ProcessPoolExecutor", Dying)
    _processes._can_start.cache_clear()
    try:
        result = run("lint", "--no-cache", "--jobs", "2", "--format", "json", str(folder))
    finally:
        _processes._can_start.cache_clear()

    assert len(json.loads(result.stdout)["diagnostics"]) == 6


class Dying:
    """Processes that die at once."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __enter__(self) -> Dying:
        return self

    def __exit__(self, *reason: object) -> None:
        pass

    def shutdown(self, cancel_futures: bool) -> None:
        pass

    def submit(self, *arguments: object) -> Future[object]:
        future: Future[object] = Future()
        future.set_exception(BrokenExecutor())
        return future


def test_standard_input_and_what_cannot_be_read_among_others(folder: Path) -> None:
    result = run("lint", "--jobs", "2", str(folder / "0.ptx"), "-", "/proc/self/mem", str(folder / "1.ptx"), stdin=BAD.encode())

    assert result.exit_code == 2
    assert result.stdout.index("nowhere0") < result.stdout.index("-:6:9") < result.stdout.index("nowhere1")
    assert "/proc/self/mem" in result.stderr


def test_the_cache_knows_what_has_not_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("lint", "--format", "json", str(folder))
    looked_at = []
    monkeypatch.setattr(_job, "examine_text", lambda name, text, job, store, processes: looked_at.append(name) or Examined(name))

    assert run("lint", "--format", "json", str(folder)).stdout == first.stdout
    assert looked_at == []
    (folder / "3.ptx").write_text(BAD)
    run("lint", str(folder))
    run("lint", str(folder), "--target", "sm_90")
    assert looked_at == [str(folder / "3.ptx"), *[str(folder / f"{i}.ptx") for i in range(6)]]
    looked_at.clear()
    run("lint", "--no-cache", str(folder))
    assert len(looked_at) == 6


def test_a_damaged_cache_is_none(folder: Path, own_cache: Path) -> None:
    first = run("lint", "--format", "json", str(folder))
    kept = sorted(own_cache.rglob("*.json"))
    assert len(kept) == 6
    for path, text in zip(kept, ("", "[]]", '[{"rule": 1}]', "{}", "null", "\udcff"), strict=True):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))

    assert run("lint", "--format", "json", str(folder)).stdout == first.stdout


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that cannot be written")
def test_a_cache_that_cannot_be_written(folder: Path, own_cache: Path) -> None:
    own_cache.chmod(0o500)

    assert run("lint", str(folder)).exit_code == 1


def test_findings_come_back_whole() -> None:
    span = Span(1, 2, 3, 4, 5, 6)
    origin = Origin("a.cu", 1, 2, Origin("b.cu", 3, 4))
    found = Diagnostic("C001", "name", Severity.INFO, "text \udcff", span, "a.ptx", "k", ("note",), (Related(span, "why", origin),), origin)
    where = _cache.key(b"data", Job())
    _cache.save(where, [found])

    assert _cache.load(where, "a.ptx") == (found,)
    assert _cache.load(_cache.key(b"data", Job(target="sm_90")), "a.ptx") is None


def test_old_versions_are_forgotten(own_cache: Path) -> None:
    old, recent = own_cache / "old", own_cache / "recent"
    for path in (old, recent):
        path.mkdir()
    os.utime(old, (0, 0))
    _cache.save(_cache.key(b"data", Job()), [])

    assert not old.exists()
    assert recent.exists()


def test_when_another_file_kills_the_process(folder: Path) -> None:
    broken: Future[Examined] = Future()
    broken.set_exception(BrokenExecutor())

    found = _processes._result(broken, str(folder / "0.ptx"), Job(), False, multiprocessing.get_context("spawn"))

    assert [one.rule for one in found.diagnostics] == ["E010"]
