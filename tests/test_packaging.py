"""The package holds everything: checked on the wheel and the sdist."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("ptxkit", "analyses", "rewriters")


def test_every_folder_with_modules_is_a_package() -> None:
    """What setup.py goes by: a folder without an `__init__.py` would be missing from the wheel."""
    folders = {path.parent for top in SOURCES for path in (ROOT / top).rglob("*.py")}

    assert not [str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel made from an sdist made from a copy of the checkout."""
    pip = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if pip.returncode:
        pytest.skip("pip is not there")
    copy = tmp_path_factory.mktemp("copy") / "ptxkit"
    shutil.copytree(
        ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", ".venv", "*.egg-info", "build", ".mypy_cache", "__pycache__")
    )
    out = tmp_path_factory.mktemp("out")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(out), str(copy)]
    done = subprocess.run(wheel, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no wheel can be built here: {done.stderr[-300:]}")
    return out


def test_the_wheel_holds_everything(built: Path) -> None:
    names = set(zipfile.ZipFile(next(built.glob("*.whl"))).namelist())
    expected = {"ptxkit/py.typed", "ptxkit/syntax/ptx.peg", "ptxkit/syntax/plans.json"}
    for top in SOURCES:
        for path in (ROOT / top).rglob("*"):
            parts = path.relative_to(ROOT).parts
            if path.suffix in (".py", ".isa") and parts[:2] not in (("ptxkit", "analyses"), ("ptxkit", "rewriters")):
                expected.add("/".join(parts if parts[0] == "ptxkit" else ("ptxkit", *parts)))

    assert expected <= names
    assert not [name for name in names if name.startswith(("analyses/", "rewriters/", "tests/", "fixtures/"))]


def test_the_wheel_works_alone(built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(next(built.glob("*.whl"))).extractall(site)
    kernel = tmp_path / "k.ptx"
    kernel.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { .reg .f32 a; add.f32 a, a, nowhere; ret; }\n")
    program = (
        f"import sys; sys.path.insert(0, {str(site)!r}); from ptxkit.cli import main; main(['lint', {str(kernel)!r}], prog_name='ptxkit')"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)

    assert done.returncode == 1, done.stderr
    assert "nowhere" in done.stdout


def test_the_archive_list_takes_tests_and_fixtures() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text()

    assert all(f"graft {folder}" in manifest for folder in ("tests", "fixtures"))
