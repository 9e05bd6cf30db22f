"""A stand-in for the driver, whose GPU is the machine: in a child process by the path, in this one by its name."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ptxkit.machine.driver import STATE
from ptxkit.rewriters.profiling.device import Device, NoDevice

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STAND_IN = HERE / "stand_in"
SCALE = ROOT / "fixtures" / "profiling" / "scale.ptx"
LAUNCH = ROOT / "fixtures" / "profiling" / "launch.toml"


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes find the stand-in instead of cuda-python."""
    monkeypatch.syspath_prepend(str(STAND_IN))
    for name in [name for name in sys.modules if name == "cuda" or name.startswith("cuda.")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """This process has the stand-in; nothing may be left in its memory."""
    spec = importlib.util.spec_from_file_location("cuda.bindings.driver", STAND_IN / "cuda" / "bindings" / "driver.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(HERE))
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", module)
    yield module
    assert module.left() == []
    STATE.clear()


@pytest.fixture(params=["machine", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    """The machine, and a GPU where there is one: what is counted is the same."""
    if request.param == "machine":
        request.getfixturevalue("driver")
    try:
        return Device()
    except NoDevice as why:
        pytest.skip(str(why))
