"""The memory that the probes of a loaded module write to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from ptxkit.rewriters.manifest import LaunchShape, Layout, ProbeManifest, Table
from ptxkit.rewriters.profiling.device import Device
from ptxkit.rewriters.profiling.launch import Dimensions

Find = Callable[[str], int]
"""From the name of a variable of the module to its address on the device."""


class ProbeBuffer:
    """The buffer for launches of one shape, on the device or, where the probes ask for that, on the host. `reset` makes it ready.

    `allocations` are the address and bytes of all memory that the kernel may access, for probes that want to know. Raises
    DeviceError where there is not enough memory, ValueError for too many allocations.
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
        """Forgets what was counted, and has the module write here from the next launch on."""
        image = self.layout.image()
        if self._host:
            ctypes.memmove(self._host, image, len(image))
        else:
            self._device.write(self.address, image)
        self.switch_on()

    def switch_on(self) -> None:
        """Has the module write here, on whichever stream the next launch is."""
        self._device.write(self._symbol, self.layout.words(self.address))
        self._device.synchronize()

    def switch_off(self) -> None:
        """Has the probes do nothing, on whichever stream the next launch is."""
        self._device.write(self._symbol, self.layout.off())
        self._device.synchronize()

    def read(self) -> bytes:
        """What the probes wrote. Host memory can be read even when a launch has failed."""
        if self._host:
            return ctypes.string_at(self._host, self.layout.bytes)
        return self._device.read(self.address, self.layout.bytes)

    def tables(self) -> tuple[Table, ...]:
        """What the probes wrote, as tables. Waits for the launches that are in flight."""
        self._device.synchronize()
        return self.layout.decode(self.read())

    def free(self) -> None:
        """Gives the memory back; the module must not be launched with it any more."""
        if self._host:
            self._device.free_host(self._host)
        else:
            self._device.free(self.address)
