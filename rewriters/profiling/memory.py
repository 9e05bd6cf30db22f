"""The arguments of a launch on the device."""

from __future__ import annotations

from ptxkit.rewriters.profiling.comparison import compared
from ptxkit.rewriters.profiling.contents import of_array, of_scalar
from ptxkit.rewriters.profiling.device import Device
from ptxkit.rewriters.profiling.launch import Array, Launch, Raw, Scalar
from ptxkit.rewriters.profiling.textures import Image, MachineImage, image_on

PARTS = 1 << 12
"""Exceeds the number of parts of any struct: those of argument `n` are numbered downwards from `-1 - n * PARTS`."""


class Memory:
    """The arrays of a launch, which can be restored to their initial contents.

    Raises OSError and BadFile for array files, DeviceError if there is not enough memory.
    """

    def __init__(self, device: Device, launch: Launch) -> None:
        self._device = device
        self._launch = launch
        self._arrays: dict[int, tuple[int, int, int]] = {}  # by argument: address, address of the copy, bytes
        self._images: list[tuple[Image | MachineImage, bytes]] = []
        self.parameters: list[bytes] = []
        for i, argument in enumerate(launch.arguments):
            if isinstance(argument, Raw):
                self.parameters.append(self._struct(i, argument))
            elif isinstance(argument, Scalar):
                self.parameters.append(of_scalar(argument))
            else:
                self.parameters.append(self._array(i, argument))

    def _struct(self, number: int, raw: Raw) -> bytes:
        data = bytearray(raw.data)
        for n, (at, array) in enumerate(raw.parts):
            held = of_array(array, array.seed if array.seed is not None else self._launch.seed_of(number) + at)
            address, copy = self._device.allocate(len(held)), self._device.allocate(len(held))
            self._arrays[-1 - number * PARTS - n] = (address, copy, len(held))
            self._device.write(copy, held)
            data[at : at + 8] = address.to_bytes(8, "little")
        return bytes(data)

    def _array(self, number: int, array: Array) -> bytes:
        data = of_array(array, self._launch.seed_of(number))
        if array.kind in ("texture", "surface"):
            image = image_on(self._device, array)
            self._images.append((image, data))
            return image.handle.to_bytes(8, "little")
        address, copy = self._device.allocate(len(data)), self._device.allocate(len(data))
        self._arrays[number] = (address, copy, len(data))
        self._device.write(copy, data)
        if array.box is not None:
            return self._device.tensor_map(array.type, array.shape, array.box, array.swizzle, address)
        return address.to_bytes(8, "little")

    @property
    def allocations(self) -> tuple[tuple[int, int], ...]:
        """The address and bytes of each array."""
        return tuple([(address, size) for address, _, size in self._arrays.values() if size])

    def restore(self) -> None:
        """Restores every array to its initial contents."""
        for address, copy, size in self._arrays.values():
            self._device.copy(address, copy, size)
        for image, data in self._images:
            image.fill(data)

    def outputs(self) -> list[bytes]:
        """The contents of the compared arrays."""
        return [self._device.read(*self._at(i)) for i in compared(self._launch)]

    def contents(self) -> dict[int, bytes]:
        """The contents of every array, by index of the argument."""
        return {i: self._device.read(*self._at(i)) for i in self._arrays if i >= 0}

    def _at(self, argument: int) -> tuple[int, int]:
        address, _, size = self._arrays[argument]
        return address, size

    def free(self) -> None:
        """Frees the memory."""
        for address, copy, _ in self._arrays.values():
            self._device.free(address)
            self._device.free(copy)
        self._arrays.clear()
        for image, _ in self._images:
            image.free()
        self._images.clear()
