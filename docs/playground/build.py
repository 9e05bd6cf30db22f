"""Makes the playground: one folder with ptxkit in the browser, which any web server serves.

    python docs/playground/build.py --out DIR

Needs npm, and pip in this Python. What comes from npm and PyPI is kept in build/playground, so the next time needs no network.
Kernels are executed only if there is NumPy for the browser: PyPI has no such wheel of it; --wheel FILE takes one from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KEPT = ROOT / "build" / "playground"
OWN = ("index.html", "style.css", "engine.js", "worker.js", "answers.py")
RUNTIME = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
PURE = (
    "attrs",
    "cattrs",
    "typing_extensions",
    "click",
    "demangle",
    "graphviz",
    "parsimonious",
    "pygments",
    "rich",
    "markdown-it-py",
    "mdurl",
)
"""What ptxkit imports. Parsimonious takes `re` where there is no `regex`, of which there is no wheel for the browser either."""
EXAMPLES = (
    "tutorials/row_max.sm_90a.ptx",
    "tutorials/row_max_fixed.sm_90a.ptx",
    "kernels/control_flow.sm_90a.ptx",
    "kernels/wgmma_gemm.sm_90a.ptx",
    "profiling/scale.ptx",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="the folder to make; one that is there is replaced")
    parser.add_argument(
        "--wheel", action="append", default=[], type=Path, metavar="FILE", help="a wheel to add, such as NumPy's for Pyodide"
    )
    options = parser.parse_args()
    if shutil.which("npm") is None:
        parser.exit(2, "build.py: npm is not installed; it fetches Pyodide and the editor\n")
    if options.out.exists() and any(options.out.iterdir()) and not (options.out / "contents.json").is_file():
        parser.exit(2, f"build.py: {options.out} is there, and is not a playground\n")
    try:
        fetch()
        build(options.out, options.wheel)
    except (subprocess.CalledProcessError, OSError) as error:
        parser.exit(2, f"build.py: {error}\n")


def fetch() -> None:
    """Gets what is missing, and all of it after package.json has changed."""
    KEPT.mkdir(parents=True, exist_ok=True)
    if not (KEPT / "package.json").is_file() or (KEPT / "package.json").read_text() != (HERE / "package.json").read_text():
        shutil.rmtree(KEPT)
        KEPT.mkdir()
        shutil.copy(HERE / "package-lock.json", KEPT)
        shutil.copy(HERE / "package.json", KEPT / "package.json.new")
        (KEPT / "package.json.new").rename(KEPT / "package.json")
        _do(["npm", "ci", "--no-audit", "--no-fund"], KEPT)
    if not (KEPT / "wheels").is_dir():
        version = json.loads((KEPT / "node_modules/pyodide/pyodide-lock.json").read_text())["info"]["python"]
        _do(_pip("download", "--only-binary=:all:", "--python-version", version, "--no-deps", "-d", "wheels.new", *PURE), KEPT)
        (KEPT / "wheels.new").rename(KEPT / "wheels")


def build(out: Path, more: Sequence[Path] = ()) -> None:
    """Makes the folder out of what was fetched."""
    shutil.rmtree(out, ignore_errors=True)
    for folder in ("pyodide", "wheels", "examples"):
        (out / folder).mkdir(parents=True)
    for name in OWN:
        shutil.copy(HERE / name, out)
    modules = KEPT / "node_modules"
    for name in RUNTIME:
        shutil.copy(modules / "pyodide" / name, out / "pyodide")
    shutil.copy(modules / "@hpcc-js/wasm-graphviz/dist/index.js", out / "graphviz.js")
    bundle = [str(modules / ".bin/esbuild"), str(HERE / "page.js"), "--bundle", "--minify", "--format=esm", "--target=es2022"]
    _do([*bundle, f"--outfile={(out / 'page.js').resolve()}"], KEPT, NODE_PATH=str(modules))
    for wheel in (*(KEPT / "wheels").glob("*.whl"), *more):
        shutil.copy(wheel, out / "wheels")
    shutil.rmtree(ROOT / "build/lib", ignore_errors=True)  # or modules that are no more would be in the wheel
    _do(_pip("wheel", "--no-deps", "-w", str((out / "wheels").resolve()), str(ROOT)), ROOT)
    for name in EXAMPLES:
        shutil.copy(ROOT / "fixtures" / name, out / "examples")
    contents = {"wheels": sorted(path.name for path in (out / "wheels").iterdir()), "examples": [Path(name).name for name in EXAMPLES]}
    (out / "contents.json").write_text(json.dumps(contents))


def _pip(command: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "pip", command, "-q", *arguments]


def _do(command: list[str], folder: Path, **environment: str) -> None:
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **environment})


if __name__ == "__main__":
    main()
