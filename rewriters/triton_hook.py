"""Probes in the kernels that Triton compiles, enabled by one line before the first launch:

    run = ptxkit.rewriters.instrument_triton("block-counts", "sectors")

Results are printed at program exit; `run.results()` returns them at any time. Kernels that were launched before are not instrumented, nor
are those that Triton's own launcher does not launch, such as those of torch.compile.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import re
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ptxkit
from ptxkit.frozen import define, frozen
from ptxkit.rewriters.engine.rewrite import Refused
from ptxkit.rewriters.manifest import ProbeManifest, Table
from ptxkit.rewriters.probing import Chosen, Instrumented, instrument
from ptxkit.rewriters.profiling.buffer import ProbeBuffer
from ptxkit.rewriters.profiling.device import Device
from ptxkit.rewriters.profiling.launch import Dimensions
from ptxkit.rewriters.strip import strip

WARP = 32


@frozen
class TritonResult:
    """The results of probes for all launches of a kernel with one shape."""

    kernel: str
    grid: Dimensions
    block: Dimensions
    launches: int
    tables: tuple[Table, ...]


@define
class _Launched:
    buffer: ProbeBuffer
    launches: int = 0


def instrument_triton(
    *probes: Chosen | str, kernels: str = "", each: bool = False, rows: int | None = None, report: bool = True
) -> TritonRun:
    """Makes Triton insert probes into every kernel that it compiles from now on, in this process.

    `kernels` is a regular expression for their names. Launches of a kernel with the same grid are summed; with `each`, they are kept
    separate. `rows` is the number of rows of trace rings. With `report`, all results are printed at program exit. Raises ImportError
    without Triton (3.0 or later), ValueError for an unknown probe.
    """
    run = TritonRun(probes, kernels, each, rows)
    run.install()
    if report:
        atexit.register(run.print)
    return run


class TritonRun:
    """The instrumented kernels of a program."""

    def __init__(self, probes: Iterable[Chosen | str], kernels: str = "", each: bool = False, rows: int | None = None) -> None:
        self._probes = tuple(probes)
        self._kernels = re.compile(kernels)
        self._each = each
        self._rows = rows
        self._made: dict[str, Instrumented | None] = {}  # by the text that Triton made
        self._manifests: dict[int, ProbeManifest | None] = {}  # by the handle of the loaded module
        self._launched: dict[tuple[Any, ...], _Launched] = {}  # by module, name and shape
        self._current: dict[int, ProbeBuffer] = {}  # by module, the buffer that it writes to
        self._device: Device | None = None
        instrument(ptxkit.parse(""), self._probes)

    def install(self) -> None:
        """Installs hooks into Triton: the generation of PTX, the key of the cache of compiled kernels, and the launch."""
        backend: Any = importlib.import_module("triton.backends.nvidia.compiler").CUDABackend
        compiled: Any = importlib.import_module("triton.compiler.compiler").CompiledKernel
        add_stages, key_of, launch_metadata = backend.add_stages, backend.hash, compiled.launch_metadata
        suffix = f"-ptxkit-{self._key()}"

        @functools.wraps(add_stages)
        def with_probes(backend: Any, stages: dict[str, Any], *arguments: Any, **named: Any) -> None:
            add_stages(backend, stages, *arguments, **named)
            make = stages["ptx"]
            stages["ptx"] = lambda source, metadata: self.instrumented(make(source, metadata))

        @functools.wraps(launch_metadata)
        def before_launch(kernel: Any, grid: Any, stream: Any, *arguments: Any) -> Any:
            self.before_launch(kernel, grid, arguments)
            return launch_metadata(kernel, grid, stream, *arguments)

        backend.add_stages = with_probes
        backend.hash = lambda backend: key_of(backend) + suffix
        compiled.launch_metadata = before_launch

    def _key(self) -> str:
        """The cache key of instrumented kernels: it covers the probes and the files of ptxkit."""
        digest = hashlib.sha256(repr((self._probes, self._kernels.pattern)).encode())
        for package in (ptxkit, importlib.import_module("ptxkit.analyses"), importlib.import_module("ptxkit.rewriters")):
            for folder in package.__path__:
                for path in sorted(Path(folder).rglob("*.*")):
                    if path.suffix in (".py", ".isa", ".peg"):
                        digest.update(path.read_bytes())
        return digest.hexdigest()[:24]

    def instrumented(self, text: str) -> str:
        """The PTX of a kernel with the probes; unchanged, with a warning, if they cannot be inserted."""
        if text not in self._made:
            self._made[text] = self._instrument(text)
        made = self._made[text]
        return text if made is None else made.text

    def _instrument(self, text: str) -> Instrumented | None:
        module = ptxkit.parse(text)
        names = [function.name for function in module.kernels]
        if not any(self._kernels.search(name) for name in names):
            return None
        try:
            return instrument(module, self._probes)
        except (Refused, ValueError) as error:
            warnings.warn(f"no probes in {', '.join(names)}: {error}", RuntimeWarning, stacklevel=2)
            return None

    def before_launch(self, kernel: Any, grid: Any, arguments: tuple[Any, ...]) -> None:
        """Provides the buffer for a launch of a `CompiledKernel`."""
        kernel._init_handles()
        module = int(kernel.module)
        if module not in self._manifests:
            self._manifests[module] = self._manifest(kernel)
        manifest = self._manifests[module]
        if manifest is None:
            return
        device = self._device = self._device or Device()
        x, y, z = (*[int(number) for number in grid], 1, 1)[:3]
        shape = (x * int(getattr(kernel.metadata, "num_ctas", 1)), y, z)
        block = (int(kernel.metadata.num_warps) * WARP, 1, 1)
        allocations = _allocations(arguments) if manifest.allocations else ()
        key = (module, kernel.name, shape, block, allocations, *([len(self._launched)] if self._each else []))
        if key not in self._launched:
            device.synchronize()
            made = ProbeBuffer(device, manifest, lambda name: device.symbol(module, name), shape, block, allocations, self._rows)
            made.reset()
            self._launched[key] = _Launched(made)
            self._current[module] = made
        launched = self._launched[key]
        if self._current[module] is not launched.buffer:
            device.synchronize()  # launches in flight use the other buffer
            launched.buffer.switch_on()
            self._current[module] = launched.buffer
        launched.launches += 1

    def _manifest(self, kernel: Any) -> ProbeManifest | None:
        """The manifest of a compiled kernel, which may come from Triton's cache; None if it has no probes."""
        text = kernel.asm.get("ptx", "")
        plain = strip(ptxkit.parse(text)).module.text
        if plain == text or self.instrumented(plain) != text:
            return None
        made = self._made[plain]
        return None if made is None else made.manifest

    def results(self) -> list[TritonResult]:
        """The results so far, by kernel and launch shape. Waits for launches in flight."""
        if self._device is None:
            return []
        self._device.synchronize()
        found = []
        for (_, name, grid, block, *_), launched in self._launched.items():
            found.append(TritonResult(name, grid, block, launched.launches, launched.buffer.tables()))
        return found

    def reset(self) -> None:
        """Discards the results so far."""
        if self._device is not None:
            self._device.synchronize()
        for buffer in self._current.values():
            buffer.switch_off()
        for launched in self._launched.values():
            launched.buffer.free()
        self._launched.clear()
        self._current.clear()

    def print(self, most: int = 20) -> None:
        """Prints the results so far, the first rows of each table."""
        from rich.console import Console
        from rich.text import Text

        from ptxkit.rewriters.profiling.results import shown

        console = Console(soft_wrap=True, highlight=False, width=None if sys.stdout.isatty() else 200)
        for result in self.results():
            times = "once" if result.launches == 1 else f"{result.launches} times"
            console.print(Text(f"{result.kernel} <<<{result.grid}, {result.block}>>> {times}", "bold"))
            for table in result.tables:
                console.print(shown(table, most))


def _allocations(arguments: Iterable[Any]) -> tuple[tuple[int, int], ...]:
    """The address and bytes of the memory of each tensor among the arguments."""
    found = set()
    for argument in arguments:
        if hasattr(argument, "untyped_storage"):
            storage = argument.untyped_storage()
            found.add((int(storage.data_ptr()), int(storage.nbytes())))
    return tuple(sorted(found))
