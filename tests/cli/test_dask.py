"""`lint --executor dask:ADDRESS` on a cluster of two workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ptxkit.cli import _dask, _many, main
from ptxkit.cli._job import Job

distributed = pytest.importorskip("distributed")
BAD = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\n.reg .f32 a;\nmov.f32 nowhere, 0f00000000;\nret;\n}\n"
JOB = Job(("ALL",))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(40):
        statements = "mov.f32 a, 0f00000000;\n" * 50 * (i % 7)
        (tmp_path / f"{i:02}.ptx").write_text(BAD.replace("ret;", f"{statements}ret;").replace("nowhere", f"nowhere{i}"))
    (tmp_path / "empty.ptx").write_text("")
    return tmp_path


def test_the_cluster_finds_what_is_found_here(cluster: Any, folder: Path) -> None:
    arguments = ("lint", str(folder), "--select", "ALL", "--format", "json")
    here = CliRunner().invoke(main, (*arguments, "--no-cache"))
    there = CliRunner().invoke(main, (*arguments, "--executor", f"dask:{cluster.scheduler_address}"))
    kept = CliRunner().invoke(main, arguments)

    assert there.stdout == here.stdout == kept.stdout
    assert there.exit_code == here.exit_code


def test_a_worker_that_is_killed_in_between_changes_nothing(cluster: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(map(str, folder.iterdir()))
    # few at a time, so that there is much left to do when the worker dies
    monkeypatch.setattr(_dask, "AHEAD", 8)
    with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
        workers = client.run(os.getpid)
    found = []
    for examined in _dask.examined(names, JOB, False, cluster.scheduler_address):
        found.append(examined)
        if len(found) == 3:
            os.kill(next(iter(workers.values())), signal.SIGKILL)

    assert found == list(_many.examined(names, lambda _: JOB, 1, False))


def test_what_cannot_be_read_and_standard_input(cluster: Any, folder: Path) -> None:
    arguments = ("lint", str(folder / "00.ptx"), "/proc/self/mem", "-", "--executor", f"dask:{cluster.scheduler_address}")
    result = CliRunner().invoke(main, arguments, input=BAD.encode())

    assert result.exit_code == 2
    assert result.stdout.index("nowhere0") < result.stdout.index("-:6:9")
    assert "/proc/self/mem" in result.stderr


def test_a_worker_of_another_version_is_not_believed() -> None:
    assert "not 0.0" in _dask._look("a.ptx", BAD.encode(), JOB, "0.0").unreadable


@pytest.mark.parametrize("executor", ["dask:tcp://127.0.0.1:9", "dask:nonsense://", "ray:here"])
def test_no_cluster_there(folder: Path, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_dask, "TIMEOUT", 1)
    result = CliRunner().invoke(main, ("lint", str(folder), "--executor", executor))

    assert result.exit_code == 2
    assert "dask" in result.stderr.lower()
