"""How cuda-python is called: with its real bindings, against a libcuda that writes down what it is told."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the library was told."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler for the stand-in")
    if importlib.util.find_spec("cuda") is None or importlib.util.find_spec("cuda.bindings") is None:
        pytest.skip("cuda-bindings is not installed")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), str(HERE / "fake_libcuda.c")], check=True)
    path = os.pathsep.join([str(Path(entry).resolve()) for entry in sys.path])
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), "FAKE_CUDA_LOG": str(folder / "log"), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-P", str(HERE / "device_child.py")], env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [*done.stdout.splitlines(), *(folder / "log").read_text().splitlines()]


def test_errors_have_the_name_and_the_log(log: list[str]) -> None:
    assert log[0] == "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX: line 3; error : bad"
    assert log[1] == "cuModuleGetGlobal: CUDA_ERROR_NOT_FOUND"


def test_launches(log: list[str]) -> None:
    first, second = [line for line in log if " grid " in line]
    assert first.startswith("k2 grid 1 2 3 block 4 5 6 shared 0 ") and first.endswith(" 0000000000000007")
    assert second == "k0 grid 1 1 1 block 1 1 1 shared 60000 attribute 4: 2 1 1 attribute 2: 1 0 0"
    assert "set 8 60000" in log


def test_tensor_maps_and_textures(log: list[str]) -> None:
    assert "map 6 rank 2 sizes 8 6 stride 16 box 4 2 steps 1 1 0 3 0 0" in log
    assert "array 3 2 0 format 10 channels 1 flags 8" in log
    assert "texture of 0 modes 1 1 1 filter 0 flags 1" in log
    assert "texture of 2 modes 1 1 1 filter 0 flags 0" in log
    assert "surface of 0" in log
    assert "copy 1 to 3 array 0x7 pitch 12 width 12 height 2 first 1" in log
