"""Compilers, real ones and stand-ins."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ptxkit.revalidation.nvjitlink import NvJitLink
from ptxkit.revalidation.ptxas import Ptxas
from ptxkit.revalidation.validator import Unavailable

HERE = Path(__file__).resolve().parent


def _has(kind: Callable[[], object]) -> str | None:
    try:
        kind()
    except Unavailable as why:
        return str(why)
    return None


@pytest.fixture(scope="session")
def nvjitlink() -> str:
    """The name of nvJitLink, where it is there."""
    why = _has(NvJitLink)
    if why is not None:
        pytest.skip(why)
    return "nvjitlink"


@pytest.fixture(scope="session")
def ptxas() -> str:
    """The name of ptxas, where it is there."""
    why = _has(lambda: Ptxas(60))
    if why is not None:
        pytest.skip(why)
    return "ptxas"


@pytest.fixture(scope="session", params=["nvjitlink", "ptxas"])
def compiler(request: pytest.FixtureRequest) -> str:
    """Each real compiler that needs no GPU."""
    name: str = request.getfixturevalue(request.param)
    return name


def _library(source: str, target: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler for the stand-in")
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(target), str(HERE / source)], check=True)
    return target


@pytest.fixture(scope="session")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stand-in for libcuda."""
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed")
    return _library("fake_libcuda.c", tmp_path_factory.mktemp("driver") / "libcuda.so.1").parent


@pytest.fixture(scope="session")
def libnvjitlink(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to import from in which there is a stand-in for the nvJitLink wheel."""
    folder = tmp_path_factory.mktemp("site")
    _library("fake_nvjitlink.c", folder / "nvidia" / "cu99" / "lib" / "libnvJitLink.so.99")
    return folder
