"""Runs instrumented kernels from Python.

    with rewriters.instrumented(module, ["block-counts"]) as run:
        run.launch("scale", x, 2.0, len(x), grid=8, block=128)      # x: an array that is copied to the device and back
        print(run.table("block-counts"))

Or, if CuPy, cuda.core or another library loads `run.text` and launches it, `run.attach` returns the buffer to read.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

from ptxkit import files
from ptxkit.rewriters.engine.parameters import layout
from ptxkit.rewriters.manifest import Kernel, ProbeManifest, Table
from ptxkit.rewriters.probing import Chosen, instrument
from ptxkit.rewriters.profiling.buffer import Find, ProbeBuffer
from ptxkit.rewriters.profiling.device import Device, DeviceError, device_on
from ptxkit.rewriters.profiling.elements import packed
from ptxkit.rewriters.profiling.launch import Dimensions, Raw
from ptxkit.rewriters.profiling.results import frame
from ptxkit.syntax import Module

Size = int | tuple[int, ...]
_TYPES = {f".{letter}{bits}": f"{'i' if letter == 's' else 'u'}{bits}" for letter in "sub" for bits in (8, 16, 32, 64)}
_TYPES |= {f".f{bits}": f"f{bits}" for bits in (16, 32, 64)}
_TYPES[".bf16"] = "bf16"


@contextlib.contextmanager
def instrumented(module: Module, probes: Iterable[Chosen | str], *, rows: int | None = None, on: str = "gpu") -> Iterator[Run]:
    """A module with probes, ready to launch. Its device resources are released at the end.

    `rows` is the number of rows of trace rings; `on` is `gpu`, `machine`, or `auto`: the GPU if there is one. Raises what `instrument`
    raises; a GPU, unless on the machine, is needed from the first launch on.
    """
    run = Run(module, probes, rows, on)
    try:
        yield run
    finally:
        run.close()


class Run:
    """A module with probes. `tables` belong to the last launch."""

    def __init__(self, module: Module, probes: Iterable[Chosen | str], rows: int | None = None, on: str = "gpu") -> None:
        made = instrument(module, probes)
        self.module = made.module
        self.manifest: ProbeManifest = made.manifest
        self.tables: tuple[Table, ...] = ()
        self._rows = rows
        self._on = on
        self._device: Device | None = None
        self._loaded: Any = None
        self._attached: list[ProbeBuffer] = []

    @property
    def text(self) -> str:
        """The instrumented PTX."""
        return self.module.text

    @property
    def device(self) -> Device:
        """The device, opened on first use. Raises NoDevice."""
        target = next((word for word in self.module.targets if word.startswith("sm_")), "sm_90a")
        self._device = self._device or device_on(self._on, target)
        return self._device

    def launch(
        self, kernel: str, *arguments: Any, grid: Size, block: Size, cluster: Size | None = None, shared: int = 0, cooperative: bool = False
    ) -> tuple[Table, ...]:
        """Launches a kernel, waits for it, and returns what the probes found in this launch.

        An argument is a number, converted to the parameter's declared type; a `Raw` of bytes; a device array (anything with
        `__cuda_array_interface__` or `data_ptr`, as in CuPy and PyTorch); or a host array (anything with the buffer protocol, such as NumPy
        arrays or `array`), which is copied to the device and, if writable, back.

        Raises NoDevice, DeviceError (`tables` may be available even then: `bounds:act=trap` shows the cause), and TypeError or ValueError
        for arguments that do not match the kernel's.
        """
        device = self.device
        declared = self._kernel(kernel)
        if len(arguments) != len(declared.parameters):
            raise TypeError(f"{kernel} has {len(declared.parameters)} parameters, {len(arguments)} arguments are given")
        if self._loaded is None:
            self._loaded = device.load(files.encode(self.text))
        function = device.function(self._loaded, kernel)
        passed = _Passed(device)
        try:
            parameters = [
                passed.argument(name, type_, size, one) for (name, type_, _, size), one in zip(declared.parameters, arguments, strict=True)
            ]
            shape = _three(grid), _three(block)
            buffer = ProbeBuffer(
                device, self.manifest, lambda name: device.symbol(self._loaded, name), *shape, passed.allocations, self._rows
            )
            try:
                buffer.reset()
                group = None if cluster is None else _three(cluster)
                device.launch(function, *shape, parameters, shared=shared, cluster=group, cooperative=cooperative)
                device.synchronize()
                passed.copy_back()
                self.tables = buffer.tables()
            except DeviceError:
                self.tables = buffer.layout.decode(buffer.read()) if self.manifest.pinned else ()
                raise
            finally:
                with contextlib.suppress(Exception):  # a launch that failed has spoilt the context; its error is the one to see
                    buffer.free()
        finally:
            with contextlib.suppress(Exception):
                passed.free()
        return self.tables

    def attach(self, find: Find, *, grid: Size, block: Size, allocations: Iterable[tuple[int, int]] = ()) -> ProbeBuffer:
        """A buffer for launches of this shape, for a module that the caller has loaded from `text`.

        `find` returns the address of a variable of that module by name. `buffer.tables()` gives the results since then; read it after the
        launches have completed (synchronize first).
        """
        buffer = ProbeBuffer(self.device, self.manifest, find, _three(grid), _three(block), tuple(allocations), self._rows)
        self._attached.append(buffer)
        buffer.reset()
        return buffer

    def table(self, name: str) -> Table:
        """A table of the last launch by name. Raises KeyError."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(name)

    def frame(self, name: str) -> Any:
        """A table of the last launch as a pandas frame. Raises KeyError; ImportError without pandas."""
        return frame(self.table(name))

    def close(self) -> None:
        """Releases device resources."""
        for buffer in self._attached:
            with contextlib.suppress(Exception):
                buffer.free()
        self._attached.clear()
        if self._loaded is not None and self._device is not None:
            with contextlib.suppress(Exception):
                self._device.unload(self._loaded)
        self._loaded = None

    def _kernel(self, name: str) -> Kernel:
        for kernel in self.manifest.kernels:
            if kernel.name == name:
                return kernel
        raise ValueError(f"no kernel is called {name!r}; there are {', '.join(one.name for one in self.manifest.kernels) or 'none'}")


def launched(
    device: Device, module: Module, kernel: str, *arguments: Any, grid: Size, block: Size, cluster: Size | None = None, shared: int = 0
) -> None:
    """Launches a kernel of an unmodified module, without probes, and waits for it. Arguments and exceptions are as for `Run.launch`."""
    function = next((one for one in module.kernels if one.name == kernel), None)
    if function is None:
        raise ValueError(f"no kernel is called {kernel!r}; there are {', '.join(one.name for one in module.kernels) or 'none'}")
    declared = list(layout(function.header))
    if len(arguments) != len(declared):
        raise TypeError(f"{kernel} has {len(declared)} parameters, {len(arguments)} arguments are given")
    loaded = device.load(files.encode(module.text))
    passed = _Passed(device)
    try:
        parameters = [passed.argument(one.name, one.type, one.bytes, argument) for one, argument in zip(declared, arguments, strict=True)]
        group = None if cluster is None else _three(cluster)
        device.launch(device.function(loaded, kernel), _three(grid), _three(block), parameters, shared=shared, cluster=group)
        device.synchronize()
        passed.copy_back()
    finally:
        with contextlib.suppress(Exception):  # after a launch that failed, its error is the one to see
            passed.free()
            device.unload(loaded)


class _Passed:
    """The arguments of one launch, on the device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._copies: list[tuple[int, memoryview]] = []
        self.allocations: list[tuple[int, int]] = []

    def argument(self, name: str, type_: str, size: int, given: Any) -> bytes:
        """The bytes of a parameter."""
        found = self._bytes(name, type_, given)
        if len(found) != size:
            raise TypeError(f"the parameter {name} has {size} bytes, the argument {len(found)}")
        return found

    def _bytes(self, name: str, type_: str, given: Any) -> bytes:
        if isinstance(given, Raw):
            return given.data
        if isinstance(given, int | float):
            return _number(name, type_, given)
        interface = getattr(given, "__cuda_array_interface__", None)
        if interface is not None:
            address = int(interface["data"][0])
            self.allocations.append((address, _extent(interface)))
            return address.to_bytes(8, "little")
        if hasattr(given, "data_ptr"):
            address = int(given.data_ptr())
            self.allocations.append((address, int(given.numel()) * int(given.element_size())))
            return address.to_bytes(8, "little")
        try:
            view = memoryview(given)
        except TypeError:
            raise TypeError(f"the parameter {name} cannot be given a {type(given).__name__}") from None
        if view.ndim == 0:
            return view.tobytes()
        if not view.c_contiguous:
            raise TypeError(f"the array for the parameter {name} is not contiguous")
        address = self._device.allocate(view.nbytes)
        self._copies.append((address, view))
        self.allocations.append((address, view.nbytes))
        self._device.write(address, view.tobytes())
        return address.to_bytes(8, "little")

    def copy_back(self) -> None:
        """Copies arrays back after the kernel has run."""
        for address, view in self._copies:
            if not view.readonly and view.nbytes:
                target = (ctypes.c_char * view.nbytes).from_buffer(view)  # of any elements
                ctypes.memmove(target, self._device.read(address, view.nbytes), view.nbytes)

    def free(self) -> None:
        """Frees the memory."""
        for address, _ in self._copies:
            self._device.free(address)
        self._copies.clear()


def _number(name: str, type_: str, given: int | float) -> bytes:
    kind = _TYPES.get(type_)
    if kind is None:
        raise TypeError(f"the parameter {name} is of {type_}, no number can be passed")
    if kind.startswith(("f", "bf")):
        return packed(kind, [float(given)])
    if not isinstance(given, int):
        raise TypeError(f"the parameter {name} is of {type_}, {given} is not a whole number")
    size = int(kind[1:]) // 8
    if not -(1 << size * 8 - 1) <= given < 1 << size * 8:
        raise ValueError(f"{given} does not fit the parameter {name}, which is of {type_}")
    return (given % (1 << size * 8)).to_bytes(size, "little")


def _extent(interface: dict[str, Any]) -> int:
    """The bytes of a device array."""
    size = int(str(interface["typestr"]).lstrip("<>|=")[1:])
    for length in interface["shape"]:
        size *= int(length)
    return size


def _three(given: Size) -> Dimensions:
    numbers = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(numbers) <= 3 or any(number < 1 for number in numbers):
        raise ValueError(f"a size is one to three numbers from 1 on, not {given!r}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z
