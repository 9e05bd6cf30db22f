"""Engines have tests of their own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "rooms.py"


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rooms", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_public_function_is_called_by_a_test(rooms: ModuleType) -> None:
    """What only its own module needs is private; the rest is tried directly, on cases small enough to be worked out by hand."""
    assert rooms.untested(rooms.modules()) == []


def test_the_rooms_of_engines_are_there(rooms: ModuleType) -> None:
    found = {rooms.room(name) for name in rooms.modules() if name.startswith("ptxkit.analyses.")}

    assert set(rooms.ENGINES) <= found


def test_what_is_not_called_is_named(rooms: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in (
        ("analyses/__init__.py", "from ptxkit.analyses.cfg.paths import exported\n"),
        ("analyses/cfg/paths.py", "def exported(): ...\ndef called(): ...\ndef named(): ...\ndef through(): ...\ndef _own(): ...\n"),
        ("analyses/protocols/client.py", "def client(): ...\n"),
        (
            "tests/test_paths.py",
            "from ptxkit.analyses import exported\nfrom ptxkit.analyses.cfg import paths\n"
            "from ptxkit.analyses.cfg.paths import called, named\n"
            "exported()\ncalled()\nprint(named)\npaths.through()\n",
        ),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(rooms, "ROOT", tmp_path)

    assert rooms.untested(rooms.modules()) == ["ptxkit.analyses.cfg.paths.named"]
