"""The cache of functions: what is found in a function once is not looked for again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ptxkit.analyses.linting.kept import Kept
from ptxkit.cli import _cache, _functions
from ptxkit.cli._functions import Functions
from ptxkit.diagnostics import Diagnostic, Fix, Related, Severity, Span

SPAN = Span(1, 2, 0, 0, 0, 0)
FOUND = Diagnostic("S003", "smem-race", Severity.ERROR, "why", SPAN, None, "k", ("note",), (Related(SPAN, "here"),), None, Fix("cure", ()))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_cache.VARIABLE, str(tmp_path))
    return tmp_path


def database() -> Path:
    return _cache.folder() / _functions.NAME


def test_what_was_kept_is_there_again() -> None:
    Functions().save({"a": Kept((FOUND,), (3, 4)), "b": Kept(())})

    assert Functions().load(["a", "b", "c"]) == {"a": Kept((FOUND,), (3, 4)), "b": Kept(())}


def test_many_are_asked_for_at_a_time() -> None:
    many = {f"{n}": Kept(()) for n in range(2 * _functions.MANY + 1)}
    Functions().save(many)

    assert Functions().load(list(many)) == many


@pytest.mark.parametrize("broken", [b"", b"no database", b"SQLite format 3\0" + bytes(100)])
def test_a_broken_database_is_no_cache(broken: bytes) -> None:
    database().parent.mkdir(parents=True)
    database().write_bytes(broken)

    Functions().save({"a": Kept(())})
    assert Functions().load(["a"]) in ({}, {"a": Kept(())})


def test_what_is_not_understood_is_left_out() -> None:
    Functions().save({"a": Kept(())})
    with _functions._opened() as opened, opened:
        opened.execute("update found set value = '[]'")

    assert Functions().load(["a"]) == {}


SAVE = """
import sys
from ptxkit.analyses.linting.kept import Kept
from ptxkit.cli._functions import Functions
for n in range(20):
    Functions().save({f"{sys.argv[1]} {n}": Kept(())})
"""


def test_several_processes_write() -> None:
    processes = [subprocess.Popen([sys.executable, "-P", "-c", SAVE, str(number)]) for number in range(2)]

    assert [process.wait() for process in processes] == [0, 0]
    assert len(Functions().load([f"{number} {n}" for number in range(2) for n in range(20)])) == 40


def test_a_folder_that_cannot_be_made_is_no_cache(cache: Path) -> None:
    (cache / _cache.folder().name).write_text("a file")

    Functions().save({"a": Kept(())})
    assert Functions().load(["a"]) == {}
