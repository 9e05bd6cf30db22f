"""Runs tests of instructions on the GPU: one module for a hundred of them, in a child process that may fail or hang.

python device.py CHUNK.pickle FIRST RESULTS      # a child: the tests of a chunk from number FIRST on
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import launcher
import operands
from formtests import HEADER, TARGET, Buffer, Test

HARMLESS = ("cuTensorMap", "cuTexObject", "cuSurfObject", "cuArray", "cuMipmapped", "cuMemcpy3D", "cuModuleGetFunction")
"""Calls whose failure leaves the context as it was."""
RISKY = ("tensormap", "query", "tensor", "copies", "mbarrier", "wgmma", "addresses", "texture", "surface", "matrix")
GRACE, STARTING = 30.0, 60.0
"""Seconds for which a module that was begun in time may go on, and those that a child may take until it launches."""
CHUNK, SMALL = 120, 40
"""Tests of a module, at most; the second of those that may fail."""
_LINE = re.compile(r"line (\d+); (?:error|fatal)\s*:\s*(.*)")


class Result(NamedTuple):
    """What came of a test: its outputs, one after another, or why there are none."""

    status: str
    """ran, varies (from run to run), rejected (by the compiler), refused (by the driver: what it was to be launched with), failed (on the
    device), hung or late."""
    outputs: bytes = b""
    detail: str = ""


def module_text(tests: Sequence[Test]) -> tuple[str, list[int]]:
    """The module of these tests, whose kernels are `t0`, `t1`, …; and the line at which each begins."""
    parts, starts = [HEADER, *dict.fromkeys(test.declarations for test in tests if test.declarations)], []
    line = 1 + sum(part.count("\n") + 1 for part in parts)
    for number, test in enumerate(tests):
        text = test.text.replace("ENTRY", f"t{number}", 1)
        starts.append(line)
        parts.append(text)
        line += text.count("\n") + 1
    return "\n".join(parts), starts


def renumbered(text: str, numbers: Sequence[int]) -> str:
    """The text with kernel `t0` named by the first of these numbers, and so on."""
    return re.sub(r"(?<=\.entry )t(\d+)", lambda found: f"t{numbers[int(found[1])]}", text)


def compiled(tests: Sequence[Test], folder: Path) -> tuple[bytes | None, dict[int, str]]:
    """The binary of the tests that ptxas takes, each kernel under its number among all; and of the others, why it does not."""
    rejected: dict[int, str] = {}
    source, target = folder / "tests.ptx", folder / "tests.cubin"
    while len(rejected) < len(tests):
        left = [number for number in range(len(tests)) if number not in rejected]
        text, starts = module_text([tests[number] for number in left])
        text = renumbered(text, left)
        source.write_text(text)
        ran = subprocess.run(["ptxas", f"-arch={TARGET}", str(source), "-o", str(target)], capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return target.read_bytes(), rejected
        found = False
        for line, said in _LINE.findall(ran.stderr):
            at = max((n for n, start in enumerate(starts) if start <= int(line)), default=None)
            if at is not None:
                rejected.setdefault(left[at], said)
                found = True
        if not found:
            half = len(left) // 2
            if not half:
                rejected[left[0]] = ran.stderr[-300:]
                break
            # an error without a line: whoever cannot be compiled alone
            for number in left:
                alone, _ = module_text([tests[number]])
                source.write_text(alone)
                one = subprocess.run(
                    ["ptxas", f"-arch={TARGET}", str(source), "-o", str(target)], capture_output=True, text=True, check=False
                )
                if one.returncode:
                    rejected[number] = one.stderr[-300:]
            if not any(number in rejected for number in left):
                break
    return None, rejected


# --- a child ----------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def filled(fill: str, kinds: tuple[str, ...], count: int, salt: int) -> bytes:
    """What is in a buffer before the launch."""
    if fill == "sets":
        return operands.packed(operands.sets(kinds, count, salt))
    if fill == "fragments":
        return operands.packed(operands.fragments(kinds, count, salt))
    if fill == "magnitudes":
        return operands.packed(
            [operands.magnitude(value, kind) for value, kind in zip(operands.fragments(kinds, count, salt), kinds, strict=True)]
        )
    if fill == "zeros":
        return bytes(operands.offsets(kinds, count)[-1])
    if fill == "iota":
        import numpy as np

        return operands.packed([np.arange(count, dtype=np.uint64).astype(operands.dtype(kind)) for kind in kinds])
    raise ValueError(f"no such fill: {fill}")


_kept: dict[Any, Any] = {}


def _run(module: Any, name: str, test: Test) -> bytes:
    function = launcher.Pointer()
    launcher.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
    if test.shared > 48 << 10:
        launcher.call("cuFuncSetAttribute", function, launcher.MAX_DYNAMIC_SHARED, test.shared)
    held = launcher.Held()
    parameters: list[Any] = []
    outputs = []
    for argument in test.arguments:
        if not isinstance(argument, Buffer):
            parameters.append(argument.device(held))
            if getattr(argument, "output", False):
                outputs.append(argument.reader(held))
            continue
        identity = (argument.fill, argument.kinds, argument.count, argument.salt)
        if argument.output:
            address = held.buffer(filled(*identity))
            outputs.append(lambda address=address, size=argument.bytes: launcher.read(address, size))
        else:
            if identity not in _kept:
                _kept[identity] = launcher.Held().buffer(filled(*identity))
            address = _kept[identity]
        parameters.append(address)
    shape = {"grid": [test.grid, 1, 1], "block": [test.block, 1, 1], "shared": test.shared}
    if test.cluster > 1:
        shape["cluster"] = [test.cluster, 1, 1]
    launcher._launch(function, shape, parameters)
    found = b"".join([read() for read in outputs])
    held.free()
    return found


def child(chunk: Path, first: int, results: Path) -> None:
    """Runs the tests of a chunk from `first` on and appends what comes of each."""
    tests, binary, rejected = pickle.loads(chunk.read_bytes())
    with results.open("ab") as out:

        def say(number: int, result: Result | None) -> None:
            pickle.dump((number, result), out)
            out.flush()

        launcher.start()
        module = launcher.Pointer()
        image = ctypes.create_string_buffer(binary, len(binary))
        try:
            launcher.call("cuModuleLoadData", ctypes.byref(module), image)
        except launcher.DriverError:
            # what only the driver can link: it compiles the text itself
            text, _ = module_text(tests)
            module = launcher.load(text)
        for number, test in enumerate(tests):
            if number < first or number in rejected:
                continue
            say(number, None)
            try:
                found = _run(module, f"t{number}", test)
                again = _run(module, f"t{number}", test)
            except launcher.DriverError as error:
                if str(error).startswith(HARMLESS):
                    say(number, Result("refused", detail=str(error)))
                    continue
                say(number, Result("failed", detail=str(error)))
                out.close()
                os._exit(3)
            say(number, Result("ran", found) if found == again else Result("varies", found, "two runs differ"))


# --- the parent -------------------------------------------------------------------------------------------------------------------


def chunks(tests: Sequence[Test]) -> list[list[Test]]:
    """Tests in modules: those of one group with the same declarations together."""
    found: dict[tuple[str, str], list[list[Test]]] = {}
    for test in tests:
        lists = found.setdefault((test.group, test.declarations), [[]])
        size = sum(len(one.text) for one in lists[-1])
        if len(lists[-1]) >= (SMALL if test.group in RISKY else CHUNK) or size > 400_000:
            lists.append([])
        lists[-1].append(test)
    return [chunk for lists in found.values() for chunk in lists]


def run_chunk(tests: Sequence[Test], limit: float, until: float) -> list[Result]:
    """The results of a chunk's tests, from as many children as that takes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binary, rejected = compiled(tests, folder)
        found: dict[int, Result] = {number: Result("rejected", detail=said) for number, said in rejected.items()}
        if binary is None:
            return [found.get(number, Result("rejected", detail="the module cannot be compiled")) for number in range(len(tests))]
        (folder / "chunk").write_bytes(pickle.dumps((list(tests), binary, rejected)))
        results = folder / "results"
        first = 0
        while first < len(tests) and time.monotonic() < until + GRACE:
            results.write_bytes(b"")
            ended = _attempt(folder / "chunk", first, results, limit)
            begun = first
            if not results.stat().st_size:
                # it does not even load: none of its tests will
                return [found.get(number, Result("failed", detail=ended[-280:])) for number in range(len(tests))]
            for number, result in _said(results):
                begun = number
                if result is not None:
                    found[number] = result
            missing = [number for number in range(first, len(tests)) if number not in found]
            if not missing:
                break
            if begun not in found:
                found[begun] = Result("hung" if ended == "hung" else "failed", detail=ended)
            first = begun + 1
    return [found.get(number, Result("late", detail="no time was left")) for number in range(len(tests))]


def _said(path: Path) -> Iterator[tuple[int, Result | None]]:
    with path.open("rb") as file:
        while True:
            try:
                yield pickle.load(file)
            except (EOFError, pickle.UnpicklingError):
                return


def _attempt(chunk: Path, first: int, results: Path, limit: float) -> str:
    command = [sys.executable, __file__, str(chunk), str(first), str(results)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    size, since = 0, time.monotonic()
    while True:
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            now = results.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > (limit if now else max(limit, STARTING)):
                process.kill()
                process.wait()
                return "hung"
            continue
        assert process.stderr is not None
        return f"the child ended with {process.returncode}: {process.stderr.read()[-600:]}"


def run_all(tests: Sequence[Test], workers: int, limit: float, until: float, say: Callable[[str], None]) -> Iterator[tuple[Test, Result]]:
    """Every test with its result. Chunks that are not begun `until` then are left out (`not run`)."""
    os.environ.update(CUDA_MODULE_LOADING="EAGER")
    if shutil.which("ptxas") is None:
        raise FileNotFoundError("ptxas must be on the PATH")
    # what may hang or fail first: it takes the longest
    jobs = sorted(chunks(tests), key=lambda chunk: RISKY.index(chunk[0].group) if chunk[0].group in RISKY else len(RISKY))

    def work(chunk: Sequence[Test]) -> list[Result]:
        if time.monotonic() > until:
            return [Result("late", detail="no time was left")] * len(chunk)
        return run_chunk(chunk, limit, until)

    done = 0
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for chunk, results in zip(jobs, pool.map(work, jobs), strict=True):
            done += 1
            if done % 20 == 0:
                say(f"{done} of {len(jobs)} modules")
            yield from zip(chunk, results, strict=True)


if __name__ == "__main__":
    # results must be known to the parent under the name that this module has there
    import device

    device.child(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
