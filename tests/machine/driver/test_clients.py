"""Test suites of other people's programs, with the machine as their GPU: `PTXKIT_CLIENTS=FOLDER pytest -m long tests/machine/driver`.

FOLDER has checkouts of their repositories, under the names below; what is not there or not installed is skipped. Use an environment of
its own for each, with a release that fits the checkout.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.long


@attrs.frozen
class Client:
    """A suite: the checkout, the folder in it to run from, what must be installed, the tests, and the least share of them that pass."""

    checkout: str
    folder: str
    modules: tuple[str, ...]
    tests: tuple[str, ...]
    least: float = 0.95
    environment: dict[str, str] = attrs.Factory(dict)


_ENDS = "not latchkernel and not timing_incomplete and not is_done_false"
"""Tests without a kernel that waits for the host."""

CLIENTS = [
    Client(
        "cuda-python", "cuda_core/tests", ("cuda.core", "cuda.bindings.nvrtc"),
        (".", "--ignore=memory_ipc", "--ignore=cython", "--ignore=system", "-k", _ENDS),
    ),
    Client(
        "tinygrad", ".", (), ("-p", "tinygrad_machine", "test/test_tiny.py", "test/backend/test_ops.py"), 0.98,
        {"DEV": "MOCK+CUDA:PTX", "PYTHONPATH": os.pathsep.join((".", str(ROOT), str(ROOT / "examples")))},
    ),
]  # fmt: skip


def folder_of(name: str) -> Path:
    """A checkout. Skips the test if there is none."""
    given = os.environ.get("PTXKIT_CLIENTS")
    if not given:
        pytest.skip("PTXKIT_CLIENTS names no folder of checkouts")
    found = Path(given) / name
    if not found.is_dir():
        pytest.skip(f"there is no {found}")
    return found


def needs(*modules: str) -> None:
    for module in modules:
        try:
            found = importlib.util.find_spec(module)
        except ImportError:
            found = None
        if found is None:
            pytest.skip(f"{module} is not installed")


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.checkout)
def test_a_suite_passes_on_the_machine(client: Client, tmp_path: Path) -> None:
    checkout = folder_of(client.checkout)
    needs(*client.modules)
    report = tmp_path / "report.xml"
    words = ["-m", "pytest", *client.tests, "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command = [sys.executable, *([] if "DEV" in client.environment else ["-m", "ptxkit.machine"]), *words]
    helpers = os.pathsep.join((str(ROOT), str(checkout / "cuda_python_test_helpers")))
    environment = {**os.environ, "PYTHONPATH": helpers, **client.environment}
    done = subprocess.run(command, cwd=checkout / client.folder, env=environment, capture_output=True, text=True, check=False, timeout=3600)
    assert report.exists(), done.stderr[-2000:]
    (suite,) = ElementTree.parse(report).getroot().iter("testsuite")
    run, skipped, wrong = (int(suite.attrib[name]) for name in ("tests", "skipped", "failures"))
    wrong += int(suite.attrib["errors"])
    assert run > skipped, done.stdout[-2000:]
    assert wrong <= (1 - client.least) * (run - skipped), f"{wrong} of {run - skipped} fail\n{done.stdout[-4000:]}"


def test_tests_of_numba_pass_on_the_machine() -> None:
    needs("numba_cuda", "filecheck")
    tests = ("cudapy.test_array", "cudapy.test_alignment", "cudapy.test_blackscholes", "cudadrv.test_linker")
    command = [sys.executable, "-m", "ptxkit.machine", "-m", "unittest", *[f"numba.cuda.tests.{name}" for name in tests]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=3600)
    run = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
    assert run is not None, done.stderr[-2000:]
    wrong = sum(map(int, re.findall(r"(?:failures|errors)=(\d+)", done.stderr.splitlines()[-1])))
    assert wrong <= 0.05 * int(run[1]), done.stderr[-4000:]


@pytest.mark.parametrize("target", [80, 90, 100])
def test_the_tutorials_of_triton_are_right(target: int) -> None:
    checkout = folder_of("triton")
    needs("triton", "torch")
    script = str(ROOT / "benchmarks" / "triton_tutorials.py")
    command = [sys.executable, script, str(checkout / "python" / "tutorials"), "--target", str(target), "--only", "01", "03", "06"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=3600)
    lines = done.stdout.splitlines()
    assert len(lines) >= 7, done.stderr[-2000:]
    assert [line for line in lines if ": right" not in line] == []
