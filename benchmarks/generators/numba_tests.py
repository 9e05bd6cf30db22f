"""PTX of the kernels of Numba's own tests that give their signature, without a GPU.

    python numba_tests.py FOLDER

While the test modules are imported and their tests set up, `cuda.jit` records functions and signatures instead of compiling them.
"""

import importlib
import pkgutil
import sys
import unittest
from pathlib import Path

from numba import cuda

RECORDED = []


def recording(signature=None, *_, **options):
    """Stands for `cuda.jit`."""

    def take(function):
        if signature is not None and not callable(signature):
            RECORDED.append((function, signature, options))
        raise unittest.SkipTest("recorded")

    return take(signature) if callable(signature) else take


def main():
    out = Path(sys.argv[1])
    import numba.cuda.tests.cudapy as tests

    modules = []
    for found in sorted(pkgutil.iter_modules(tests.__path__), key=lambda one: one.name):
        try:
            modules.append(importlib.import_module(f"{tests.__name__}.{found.name}"))
        except BaseException:
            continue
    for module in modules:
        for thing in list(vars(module).values()):
            if isinstance(thing, type) and issubclass(thing, unittest.TestCase):
                record(thing)
    made = set()
    for function, signature, options in RECORDED:
        if options.get("device") or len(made) >= 60:
            continue
        name = f"{(function.__module__ or '').rpartition('.')[2]}.{function.__name__}"
        try:
            text, _ = cuda.compile_ptx(function, signature, cc=(8, 0))
        except BaseException:
            continue
        while name in made:
            name += "_"
        made.add(name)
        (out / f"{name}.sm_80.ptx").write_text(text)


def record(case):
    jit, cuda.jit = cuda.jit, recording
    try:
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            try:
                getattr(case(name), name)()
            except BaseException:
                continue
    finally:
        cuda.jit = jit


if __name__ == "__main__":
    main()
