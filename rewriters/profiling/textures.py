"""Texture and surface objects (5.3), and their memory."""

from __future__ import annotations

import ctypes
from typing import Any

from ptxkit.rewriters.profiling.device import Device, MachineDevice
from ptxkit.rewriters.profiling.elements import SIZES
from ptxkit.rewriters.profiling.launch import Array

_GATHER = 8  # CUDA_ARRAY3D_TEXTURE_GATHER
_LOAD_STORE = 2  # CUDA_ARRAY3D_SURFACE_LDST
_AS_INTEGERS = 1  # CU_TRSF_READ_AS_INTEGER
_FORMATS = {"u32": "UNSIGNED_INT32", "i32": "SIGNED_INT32", "f32": "FLOAT"}


class Image:
    """A texture over linear memory or a two-dimensional array, or a surface over an array. `handle` is passed to the kernel."""

    def __init__(self, device: Device, array: Array) -> None:
        self._device = device
        self._shape = array.shape
        self._row = array.shape[-1] * SIZES[array.type]
        self._linear = 0
        self._array: Any = None
        self._surface = array.kind == "surface"
        cuda = device.cuda
        format_ = getattr(cuda.CUarray_format, f"CU_AD_FORMAT_{_FORMATS[array.type]}")
        resource = cuda.CUDA_RESOURCE_DESC()
        if len(array.shape) == 1:
            self._linear = device.allocate(array.bytes)
            resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
            linear = resource.res.linear
            linear.devPtr, linear.format, linear.numChannels, linear.sizeInBytes = self._linear, format_, 1, array.bytes
        else:
            self._array = device.call("cuArray3DCreate", self._description(array, format_))
            resource.resType = cuda.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
            resource.res.array.hArray = self._array
        if self._surface:
            self.handle = int(device.call("cuSurfObjectCreate", resource))
            return
        texture = cuda.CUDA_TEXTURE_DESC()
        texture.addressMode = [cuda.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
        texture.filterMode = cuda.CUfilter_mode.CU_TR_FILTER_MODE_POINT
        texture.flags = 0 if array.type == "f32" else _AS_INTEGERS
        self.handle = int(device.call("cuTexObjectCreate", resource, texture, None))

    def _description(self, array: Array, format_: Any) -> Any:
        made = self._device.cuda.CUDA_ARRAY3D_DESCRIPTOR()
        made.Height, made.Width = array.shape
        made.Depth, made.Format, made.NumChannels = 0, format_, 1
        made.Flags = _LOAD_STORE if self._surface else _GATHER
        return made

    def fill(self, data: bytes) -> None:
        """Copies these bytes into it."""
        if self._linear:
            self._device.write(self._linear, data)
            return
        cuda = self._device.cuda
        held = (ctypes.c_char * len(data)).from_buffer_copy(data)
        copy = cuda.CUDA_MEMCPY2D()
        copy.srcMemoryType = cuda.CUmemorytype.CU_MEMORYTYPE_HOST
        copy.srcHost, copy.srcPitch = ctypes.addressof(held), self._row
        copy.dstMemoryType, copy.dstArray = cuda.CUmemorytype.CU_MEMORYTYPE_ARRAY, self._array
        copy.WidthInBytes, copy.Height = self._row, self._shape[0]
        self._device.call("cuMemcpy2D", copy)

    def free(self) -> None:
        """Releases all resources."""
        self._device.call("cuSurfObjectDestroy" if self._surface else "cuTexObjectDestroy", self.handle)
        if self._linear:
            self._device.free(self._linear)
        else:
            self._device.call("cuArrayDestroy", self._array)


class MachineImage:
    """The same on the machine, where textures and surfaces use arrays of this process."""

    def __init__(self, device: MachineDevice, array: Array) -> None:
        import numpy as np

        from ptxkit.machine.textures.objects import handle_of

        self._values = np.zeros(array.shape, f"{array.type[0]}{SIZES[array.type]}")
        machine = device.machine
        make = machine.surface if array.kind == "surface" else machine.texture
        self._object = make(self._values)
        self.handle = handle_of(machine.memory, self._object)

    def fill(self, data: bytes) -> None:
        """Copies these bytes into it."""
        import numpy as np

        self._values[...] = np.frombuffer(data, self._values.dtype).reshape(self._values.shape)

    def free(self) -> None:
        """Nothing to release."""


def image_on(device: Device, array: Array) -> Image | MachineImage:
    """The texture or surface that an array describes, on a device."""
    return MachineImage(device, array) if isinstance(device, MachineDevice) else Image(device, array)
