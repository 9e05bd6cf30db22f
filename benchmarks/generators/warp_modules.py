"""PTX of the kernels that Warp ships in its tests and examples, or of those of other packages, for a target, without a GPU.

python warp_modules.py FOLDER [TARGET [MOST [PACKAGE…]]]
"""

import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import warp

PACKAGES = (
    "warp.tests",
    "warp.tests.geometry",
    "warp.tests.tile",
    "warp.examples.core",
    "warp.examples.tile",
    "warp.optim",
    "warp.sparse",
    "warp.utils",
)


def names(packages):
    for package in packages:
        try:
            found = importlib.import_module(package)
        except Exception:
            continue
        inner = [f"{package}.{one.name}" for one in pkgutil.iter_modules(getattr(found, "__path__", []))]
        yield from sorted(inner) or [package]


def main():
    out, arch = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 86
    most = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    warp.config.quiet = True
    warp.init()
    made = 0
    for name in names(sys.argv[4:] or PACKAGES):
        if made >= most:
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                importlib.import_module(name)
                warp.compile_aot_module(name, arch=arch, module_dir=folder, use_ptx=True)
            except BaseException:
                continue
            for path in Path(folder).glob("*.ptx"):
                (out / f"{name}.sm_{arch}.ptx").write_bytes(path.read_bytes().rstrip(b"\0"))  # Warp keeps the end of the C string
                made += 1


if __name__ == "__main__":
    main()
