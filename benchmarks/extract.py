"""Texts of `ptxkit extract` against those of `cuobjdump -xptx all`: python benchmarks/extract.py --cuobjdump PATH [--sources N] [FILE…]

With nvcc on PATH, fat binaries are made of the first N fixtures (.cu): for each compression a program, a shared library, an object, one to
be linked, a static archive and a .fatbin, for two targets. FILE is a binary file, or a wheel, whose libraries are compared one by one.
Where cuobjdump finds nothing it is asked again with -all, and ptxkit with it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ptxkit import binaries, files

KERNELS = Path(__file__).resolve().parent.parent / "fixtures" / "kernels"
MODES = ("none", "speed", "balance", "size")
TARGETS = ["-gencode", "arch=compute_90a,code=[sm_90a,compute_90a]", "-gencode", "arch=compute_100a,code=compute_100a"]
MAIN = "int main() { return 0; }\n"


def peer(cuobjdump: str, path: Path, *options: str) -> list[str]:
    """The texts that cuobjdump takes out, in its order."""
    with tempfile.TemporaryDirectory() as folder:
        command = [cuobjdump, *options, "-xptx", "all", str(path.resolve())]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
        names = re.findall(r"\d+: (\S+\.ptx) -arch", said)
        return [files.read(str(Path(folder) / name)) for name in names]


def own(path: Path, every: bool) -> tuple[list[str], tuple[str, ...]]:
    """The texts that ptxkit takes out, and what it says is damaged."""
    contents = binaries.contents(path.read_bytes(), every)
    return [binaries.text(member.entry) for member in contents.members], contents.damages


def compare(cuobjdump: str, path: Path) -> tuple[int, int, str]:
    """How many texts there are, how many are equal, and what is to be said."""
    expected, note, every = peer(cuobjdump, path), "", False
    found, damages = own(path, every)
    if not expected and found:
        every = True
        expected, note = peer(cuobjdump, path, "-all"), "with -all"
        found, damages = own(path, every)
    same = sum((Counter(expected) & Counter(found)).values())
    if len(found) != len(expected):
        note += f" {len(found)} found"
    return len(expected), same, " ".join([note, *damages]).strip()


def made(folder: Path, count: int) -> Iterator[Path]:
    """Fat binaries of the fixtures."""
    sources = sorted(KERNELS.glob("*.cu"))
    # all that compile for both targets: a source may say that it does not
    sources = [one for one in sources if not re.search(r"^// targets:(?!.*sm_90a.*sm_100a)", one.read_text(), re.M)][:count]
    (folder / "main.cu").write_text(MAIN)
    for source in sources:
        shutil.copyfile(source, folder / source.name)
    names = [source.name for source in sources]
    for mode in MODES:
        base = ["nvcc", "-std=c++17", *TARGETS, f"-compress-mode={mode}"]
        objects = []
        for name in names:
            stem = f"{Path(name).stem}.{mode}"
            for flags, suffix in ((["-c"], ".o"), (["-c", "-rdc=true"], ".r.o"), (["-fatbin"], ".fatbin")):
                subprocess.run([*base, *flags, name, "-o", stem + suffix], cwd=folder, check=True, capture_output=True)
                yield folder / (stem + suffix)
            objects.append(f"{stem}.o")
        commands = {
            f"program.{mode}": [*base, "main.cu", *names[:1]],
            f"lib{mode}.so": [*base, "-shared", "-Xcompiler", "-fPIC", *names[:1]],
            f"lib{mode}.a": ["nvcc", "-lib", *objects],
        }
        for name, command in commands.items():
            subprocess.run([*command, "-o", name], cwd=folder, check=True, capture_output=True)
            yield folder / name


def given(path: Path, folder: Path) -> Iterator[Path]:
    """The file, or the libraries of a wheel."""
    if not zipfile.is_zipfile(path):
        yield path
        return
    with zipfile.ZipFile(path) as file:
        for info in file.infolist():
            if info.filename.endswith(".so") or ".so." in info.filename:
                yield Path(file.extract(info, folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--sources", type=int, default=0)
    parser.add_argument("paths", nargs="*", type=Path)
    options = parser.parse_args()
    total = equal = binary = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = list(made(folder, options.sources)) if options.sources else []
        for path in [*paths, *[inner for one in options.paths for inner in given(one, folder)]]:
            count, same, note = compare(options.cuobjdump, path)
            total, equal, binary = total + count, equal + same, binary + (count > 0)
            if count != same or note:
                print(f"{path.name}: {same} of {count} equal {note}")
    print(f"{binary} files with PTX: {equal} of {total} texts equal")
    return 0 if equal == total else 1


if __name__ == "__main__":
    sys.exit(main())
