"""The buffer that the probes of a loaded module write to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from ptxkit.rewriters.manifest import LaunchShape, Layout, ProbeManifest, Table
from ptxkit.rewriters.profiling.device import Device
from ptxkit.rewriters.profiling.launch import Dimensions

Find = Callable[[str], int]
"""Maps the name of a variable of the module to its device address."""


class ProbeBuffer:
    """The buffer for launches of one shape, on the device, or on the host if the probes require that. `reset` initializes it.

    `allocations` lists the address and bytes of all memory that the kernel may access, for probes that need it. Raises DeviceError if there
    is not enough memory, ValueError for too many allocations.
    """

    def __init__(
        self,
        device: Device,
        manifest: ProbeManifest,
        find: Find,
        grid: Dimensions,
        block: Dimensions,
        allocations: Sequence[tuple[int, int]] = (),
        rows: int | None = None,
    ) -> None:
        self.layout: Layout = manifest.layout(LaunchShape(grid, block, tuple(allocations)), rows=rows)
        self._device = device
        self._symbol = find(manifest.symbol)
        self._host = 0
        if manifest.pinned:
            self._host, self.address = device.allocate_host(self.layout.bytes)
        else:
            self.address = device.allocate(self.layout.bytes)

    def reset(self) -> None:
        """Clears all counts, and makes the module write here from the next launch on."""
        image = self.layout.image()
        if self._host:
            ctypes.memmove(self._host, image, len(image))
        else:
            self._device.write(self.address, image)
        self.switch_on()

    def switch_on(self) -> None:
        """Makes the module write here, on any stream of the next launch."""
        self._device.write(self._symbol, self.layout.words(self.address))
        self._device.synchronize()

    def switch_off(self) -> None:
        """Disables the probes, on any stream of the next launch."""
        self._device.write(self._symbol, self.layout.off())
        self._device.synchronize()

    def read(self) -> bytes:
        """What the probes wrote. Host memory can be read even after a failed launch."""
        if self._host:
            return ctypes.string_at(self._host, self.layout.bytes)
        return self._device.read(self.address, self.layout.bytes)

    def tables(self) -> tuple[Table, ...]:
        """What the probes wrote, as tables. Waits for launches in flight."""
        self._device.synchronize()
        return self.layout.decode(self.read())

    def free(self) -> None:
        """Frees the memory; the module must not be launched with it again."""
        if self._host:
            self._device.free_host(self._host)
        else:
            self._device.free(self.address)
