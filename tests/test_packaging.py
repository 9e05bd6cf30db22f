"""The package holds everything: checked on the wheel and the sdist."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

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


def test_the_wheel_is_small(built: Path) -> None:
    assert next(built.glob("*.whl")).stat().st_size < 3_000_000


def test_what_an_index_shows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)]+)\)", readme)

    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(project["urls"])
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} <= set(project["classifiers"])
    assert links and all(link.startswith("https://") for link in links)
    own = [link.split("/main/")[1].partition("#")[0] for link in links if link.startswith(project["urls"]["Source"])]
    assert [path for path in own if not (ROOT / path).exists()] == []


def test_nothing_is_left_to_fill_in() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "action.yml", ROOT / "pyproject.toml"]

    assert [path.name for path in pages if "OWNER" in path.read_text(encoding="utf-8")] == []


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A user's repository: a kernel with an error, and one without."""
    (tmp_path / "kernels").mkdir()
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    (tmp_path / "kernels" / "bad.ptx").write_text(head + ".visible .entry bad() { bra nowhere; }\n")
    (tmp_path / "kernels" / "good.ptx").write_text(head + "\n.visible .entry good()\n{\n    ret;\n}\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    """Where `ptxkit` is the one of this checkout."""
    command = folder / "bin" / "ptxkit"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ptxkit "$@"\n')
    command.chmod(0o755)
    paths = {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PTXKIT_CACHE_DIR": str(folder / "cache"),
    }
    return {**os.environ, **paths}


@pytest.mark.skipif(os.name == "nt", reason="the action runs bash")
def test_the_action_annotates(repository: Path) -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    script = action["runs"]["steps"][-1]["run"]
    own = environment(repository)
    run = ["bash", "-e", "-c", script]

    found = subprocess.run(
        run, cwd=repository, env={**own, "PATHS": "kernels", "ARGUMENTS": "", "SARIF": ""}, capture_output=True, text=True
    )
    clean = subprocess.run(run, cwd=repository, env={**own, "PATHS": "kernels/good.ptx", "ARGUMENTS": "", "SARIF": ""}, capture_output=True)
    written = {**own, "PATHS": "kernels", "ARGUMENTS": "--exit-zero", "SARIF": "out.sarif"}
    sarif = subprocess.run(run, cwd=repository, env=written, capture_output=True)

    assert found.returncode == 1 and found.stdout.startswith("::error file=kernels/bad.ptx,line=4"), found.stderr
    assert (clean.returncode, sarif.returncode) == (0, 0)
    assert json.loads((repository / "out.sarif").read_text())["runs"][0]["results"][0]["ruleId"] == "E012"


def test_the_hooks_lint_and_format(repository: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    own = environment(repository)
    names = [str(path.relative_to(repository)) for path in sorted(repository.glob("kernels/*.ptx"))]

    codes = {}
    for name, hook in hooks.items():
        assert all(re.search(hook["files"], one) for one in names)
        done = subprocess.run([*hook["entry"].split(), *names], cwd=repository, env=own, capture_output=True, text=True)
        codes[name] = done.returncode

    assert codes == {"ptxkit-lint": 1, "ptxkit-fmt": 0}
