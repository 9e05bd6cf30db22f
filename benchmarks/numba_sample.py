"""Every eighth test of numba-cuda on the machine.

    python -m ptxkit.machine --target sm_90a benchmarks/numba_sample.py [--every N]

Needs numba-cuda with its tests, cuda-core, NVRTC and NVVM, and no nvJitLink. Prints how many tests ran, failed, and were skipped; modules
that cannot be imported are named.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import unittest
from collections.abc import Iterator
from typing import Any


def flat(suite: Any) -> Iterator[unittest.TestCase]:
    """The tests of a suite, one by one."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flat(one)
        else:
            yield one


def everything() -> Iterator[unittest.TestCase]:
    """The tests of all modules that can be imported."""
    tests = importlib.import_module("numba.cuda.tests")
    for info in pkgutil.walk_packages(tests.__path__, "numba.cuda.tests."):
        if not info.name.rpartition(".")[2].startswith("test_"):
            continue
        try:
            module = importlib.import_module(info.name)
        except (ImportError, unittest.SkipTest) as error:
            print(f"not imported: {info.name}: {error}")
        except BaseException as error:
            # pytest's way to skip a module is no Exception
            if type(error).__name__ != "Skipped":
                raise
            print(f"not imported: {info.name}: {error}")
        else:
            yield from flat(unittest.defaultTestLoader.loadTestsFromModule(module))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=8)
    options = parser.parse_args()
    listed = list(everything())
    chosen = listed[3 :: options.every]
    done = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite(chosen))
    skipped = len(done.skipped)
    print(f"{done.testsRun} of {len(listed)}: {len(done.failures)} fail, {len(done.errors)} have errors, {skipped} are skipped")


if __name__ == "__main__":
    main()
