"""The first GPU, through cuda-python's `cuda.bindings`: memory, modules, launches. Independent of probes."""

from __future__ import annotations

import ctypes
import importlib
import math
from collections.abc import Sequence
from typing import Any

from ptxkit.rewriters.profiling.elements import SIZES
from ptxkit.rewriters.profiling.launch import Dimensions

_LOG_BYTES = 1 << 16
_PORTABLE_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a kernel may use without opting in."""
_ALIGNMENT = 128
_HOST_MAPPED = 2  # CU_MEMHOSTALLOC_DEVICEMAP
_TENSOR_TYPES = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "i32": "INT32", "u64": "UINT64", "i64": "INT64",
    "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16",
}  # fmt: skip
_ENCODE_TYPES = (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4)


class NoDevice(Exception):
    """cuda-bindings, the driver or a GPU is missing; the message says which."""


class DeviceError(Exception):
    """A failed driver call: `call` and the `name` of the error; `log` is the compiler's output."""

    def __init__(self, call: str, name: str, log: str = "") -> None:
        super().__init__(f"{call}: {name}" + (f": {log.strip()}" if log.strip() else ""))
        self.call = call
        self.name = name
        self.log = log


class Device:
    """The device of the current context; otherwise the first one, whose primary context becomes current.

    `driver`, a module with the names of `cuda.bindings.driver`, selects that driver's device. Raises NoDevice. All calls raise DeviceError;
    after a kernel error, which invalidates the context, all following calls do.
    """

    is_machine = False
    """Whether it is the machine: a device without a clock, whose kernels have no registers."""

    def __init__(self, driver: Any = None) -> None:
        try:
            self.cuda: Any = driver or importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise NoDevice(f"cuda-bindings is not installed ({error}): pip install 'ptxkit[driver]'") from None
        try:
            self.call("cuInit", 0)
            if not self.call("cuDeviceGetCount"):
                raise NoDevice("the CUDA driver sees no GPU")
            if not int(self.call("cuCtxGetCurrent")):
                self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", 0)))
            self._device = self.call("cuCtxGetDevice")
            number = self.call("cuDriverGetVersion")
            self.name = self.call("cuDeviceGetName", 128, self._device).split(b"\0", 1)[0].decode(errors="replace")
        except (RuntimeError, DeviceError) as error:  # a RuntimeError is what the bindings raise where there is no libcuda
            raise NoDevice(f"no CUDA driver ({error})") from None
        self.driver = f"{number // 1000}.{number % 1000 // 10}"
        kinds = self.cuda.CUdevice_attribute
        major = self.call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self._device)
        minor = self.call("cuDeviceGetAttribute", kinds.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self._device)
        self.architecture = f"sm_{major}{minor}"

    # --- modules -------------------------------------------------------------------------------------------------------------------

    def load(self, source: bytes) -> Any:
        """Loads a module of PTX."""
        option, log = self.cuda.CUjit_option, bytearray(_LOG_BYTES)
        options = {option.CU_JIT_ERROR_LOG_BUFFER: log, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: len(log)}
        code, module = self.cuda.cuModuleLoadDataEx(source + b"\0", len(options), list(options), list(options.values()))
        if code:
            raise DeviceError("cuModuleLoadDataEx", _name(code), bytes(log).split(b"\0", 1)[0].decode(errors="replace"))
        return module

    def unload(self, module: Any) -> None:
        """Unloads a module."""
        self.call("cuModuleUnload", module)

    def function(self, module: Any, name: str) -> Any:
        """A kernel of a module."""
        return self.call("cuModuleGetFunction", module, name.encode())

    def symbol(self, module: Any, name: str) -> int:
        """The address of a variable of a module, which may be given as a numeric handle."""
        handle = self.cuda.CUmodule(module) if isinstance(module, int) else module
        return int(self.call("cuModuleGetGlobal", handle, name.encode()))

    def symbol_of_library(self, library: Any, name: str) -> int:
        """The address of a variable of a library (CUlibrary), which may be given as a numeric handle."""
        handle = self.cuda.CUlibrary(library) if isinstance(library, int) else library
        return int(self.call("cuLibraryGetGlobal", handle, name.encode()))

    def registers(self, function: Any) -> int:
        """The number of registers in a thread of a kernel."""
        return int(self.call("cuFuncGetAttribute", self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, function))

    # --- memory --------------------------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """Allocates memory; returns its address."""
        return int(self.call("cuMemAlloc", max(size, 1)))

    def free(self, address: int) -> None:
        self.call("cuMemFree", address)

    def write(self, address: int, data: bytes) -> None:
        if data:
            self.call("cuMemcpyHtoD", address, data, len(data))

    def read(self, address: int, size: int) -> bytes:
        data = bytearray(size)
        if size:
            self.call("cuMemcpyDtoH", data, address, size)
        return bytes(data)

    def copy(self, target: int, source: int, size: int) -> None:
        """Copies on the device."""
        if size:
            self.call("cuMemcpyDtoD", target, source, size)

    def zero(self, address: int, size: int) -> None:
        if size:
            self.call("cuMemsetD8", address, 0, size)

    def allocate_host(self, size: int) -> tuple[int, int]:
        """Host memory mapped into the device: its host and device address. It stays readable when the context is invalid."""
        here = int(self.call("cuMemHostAlloc", max(size, 1), _HOST_MAPPED))
        return here, int(self.call("cuMemHostGetDevicePointer", here, 0))

    def free_host(self, address: int) -> None:
        self.call("cuMemFreeHost", address)

    def tensor_map(self, type_: str, shape: Sequence[int], box: Sequence[int], swizzle: str, address: int) -> bytes:
        """A CUtensorMap of a row-major array, without gaps.

        It must be 64-byte aligned, which the bindings do not ensure: so the function is called by its address.
        """
        cuda, rank = self.cuda, len(shape)
        pointer = self.call("cuGetProcAddress", b"cuTensorMapEncodeTiled", 12000, 0)
        encode = ctypes.CFUNCTYPE(ctypes.c_int, *_ENCODE_TYPES)(int(pointer))
        sizes = list(reversed(shape))
        strides = [SIZES[type_] * math.prod(sizes[: i + 1]) for i in range(rank - 1)]
        found = _aligned(bytes(128))
        code = encode(
            found,
            getattr(cuda.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TENSOR_TYPES[type_]}"),
            rank,
            address,
            (ctypes.c_uint64 * rank)(*sizes),
            (ctypes.c_uint64 * rank)(*strides),
            (ctypes.c_uint32 * rank)(*reversed(box)),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,
            getattr(cuda.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle.upper()}"),
            0,
            0,
        )
        if code:
            raise DeviceError("cuTensorMapEncodeTiled", _name(cuda.CUresult(code)))
        return found.raw

    # --- launches ------------------------------------------------------------------------------------------------------------------

    def launch(
        self,
        function: Any,
        grid: Dimensions,
        block: Dimensions,
        parameters: Sequence[bytes],
        *,
        shared: int = 0,
        cluster: Dimensions | None = None,
        cooperative: bool = False,
    ) -> None:
        """Launches a kernel; `parameters` are the bytes of each argument."""
        cuda = self.cuda
        if shared > _PORTABLE_SHARED:
            most = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, most, shared)
        config = cuda.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = shared
        attributes = []
        if cluster is not None:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = attribute.value.clusterDim
            value.x, value.y, value.z = cluster
            attributes.append(attribute)
        if cooperative:
            attribute = cuda.CUlaunchAttribute()
            attribute.id = cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        config.attrs = attributes
        config.numAttrs = len(attributes)
        held = [_aligned(parameter) for parameter in parameters]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*[ctypes.addressof(one) for one in held])
        self.call("cuLaunchKernelEx", config, function, ctypes.addressof(pointers) if held else 0, 0)

    def synchronize(self) -> None:
        """Waits for all work in flight."""
        self.call("cuCtxSynchronize")

    def event(self) -> Any:
        """Records an event after all work in flight."""
        event = self.call("cuEventCreate", 0)
        self.call("cuEventRecord", event, 0)
        return event

    def seconds(self, first: Any, last: Any) -> float:
        """The time between two events; waits for the second."""
        self.call("cuEventSynchronize", last)
        return float(self.call("cuEventElapsedTime", first, last)) / 1000

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a driver function."""
        code, *values = getattr(self.cuda, name)(*arguments)
        if code:
            raise DeviceError(name, _name(code), self.why())
        return values[0] if values else None

    def why(self) -> str:
        """The driver's description of the last kernel error."""
        return ""


class MachineDevice(Device):
    """The machine as a device, of a target such as `sm_90a`."""

    is_machine = True

    def __init__(self, target: str) -> None:
        from ptxkit.machine.driver.python import MODULE
        from ptxkit.machine.driver.state import STATE, Settings

        if STATE.settings.target != target or STATE.faults:
            STATE.settings = Settings(target)
            STATE.clear()
        self._state = STATE
        super().__init__(MODULE)

    @property
    def machine(self) -> Any:
        """The `ptxkit.machine.Machine`."""
        return self._state.machine

    def why(self) -> str:
        """The fault of the last kernel that did not run to completion."""
        return str(self._state.faults[-1]) if self._state.faults else ""


def device_on(on: str, target: str) -> Device:
    """Opens the `gpu`, the `machine` as a GPU of this target, or (`auto`) the GPU if there is one, else the machine. Raises NoDevice."""
    if on == "machine":
        return MachineDevice(target)
    try:
        return Device()
    except NoDevice:
        if on == "gpu":
            raise
        return MachineDevice(target)


def _name(code: Any) -> str:
    return str(getattr(code, "name", code))


def _aligned(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """The bytes at an address aligned for every parameter, including tensor maps."""
    room = (ctypes.c_char * (len(data) + _ALIGNMENT))()
    found = (ctypes.c_char * len(data)).from_buffer(room, -ctypes.addressof(room) % _ALIGNMENT)
    found.raw = data
    return found
