"""Launches kernels that Triton has compiled on arrays in the memory of this process: NumPy arrays, or CPU tensors of PyTorch.

    compiled = triton.compile(ASTSource(fn=add, signature=…, constexprs=…), target=GPUTarget("cuda", 90, 32))
    launch(compiled, grid, x, y, out, n)

The arguments are those of the kernel at run time, without its compile-time constants. Programs that launch with `kernel[grid](…)` run
unchanged after `activate(90)`: Triton then uses the machine as its GPU, and `cpu` as its device.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ptxkit.machine import Code, Fault, Machine, Run
from ptxkit.machine.asynchronous import tensor_maps
from ptxkit.machine.launching import Size, declared, shared_limit, three

TARGETS = {90: "sm_90a", 100: "sm_100a", 103: "sm_103a", 110: "sm_110a", 120: "sm_120a", 121: "sm_121a"}
"""Targets by Triton's number, for architecture-specific code."""

_SWIZZLES = ("none", "32B", "64B", "128B")
_SCALARS = {
    "i1": "u1", "u1": "u1", "i8": "i1", "u8": "u1", "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8",
    "fp16": "f2", "fp32": "f4", "f32": "f4", "fp64": "f8",
}  # fmt: skip
"""Types in a signature as NumPy dtypes."""

Ranges = list[tuple[int, int]]


@functools.cache
def machine_of(target: str) -> Machine:
    """The machine of a target, shared by all launches."""
    return Machine(target, host_memory=True)


@functools.lru_cache(maxsize=1024)
def _loaded(target: str, ptx: str) -> Code:
    return machine_of(target).load(ptx)


def launch(
    compiled: Any,
    grid: Size,
    *arguments: Any,
    schedule: str | int | None = None,
    seconds: float | None = None,
    checks: str | Sequence[str] = (),
) -> Run:
    """Runs a compiled kernel to completion. Arrays are accessed without copies.

    Raises what `Machine.launch` raises, and TypeError if the arguments do not fit the signature.
    """
    types = [type_ for type_ in compiled.src.signature.values() if type_ != "constexpr"]
    return _run(compiled.metadata, compiled.asm["ptx"], three(grid, "grid"), types, arguments, schedule, seconds, checks)


def _run(
    metadata: Any,
    ptx: str,
    grid: tuple[int, int, int],
    types: Sequence[Any],
    arguments: Sequence[Any],
    schedule: str | int | None = None,
    seconds: float | None = None,
    checks: str | Sequence[str] = (),
    everywhere: bool = False,
) -> Run:
    architecture = metadata.target.arch
    target = TARGETS.get(architecture, f"sm_{architecture}")
    # monitors track addresses densely, while arrays of the process may be far apart
    machine = Machine(target) if checks else machine_of(target)
    code = machine.load(ptx) if checks else _loaded(target, ptx)
    if len(types) != len(arguments):
        raise TypeError(f"{metadata.name} has {len(types)} arguments at run time, {len(arguments)} are given")
    ctas = metadata.num_ctas
    scratch = np.zeros(max(1, metadata.global_scratch_size * math.prod(grid) * ctas) + 128, np.uint8)
    ranges = [_bounds(scratch), *(_writable() if everywhere else ())]
    data = _parameters(list(getattr(metadata, "tensordesc_meta", None) or ()), types, arguments, ranges)
    layout = code.program(metadata.name, False, False).layout()
    data += [(-(-scratch.ctypes.data // 128) * 128).to_bytes(8, "little")] * (len(layout) - len(data))
    data = [one.ljust(size, b"\0")[:size] for one, (_, _, size, _) in zip(data, layout, strict=True)]
    threads = declared(code, metadata.name).get(".reqntid") or [32 * metadata.num_warps]
    allowed = _merged(ranges)
    options: dict[str, Any] = {
        "grid": (grid[0] * ctas, *grid[1:]), "block": threads, "cluster": ctas if ctas > 1 else None, "shared": metadata.shared,
        "schedule": schedule, "budget": seconds,
    }  # fmt: skip
    if checks:
        return _watched(machine, code, metadata.name, data, allowed, {**options, "checks": checks})
    for low, high in allowed:
        machine.memory.register(low, high - low)
    try:
        return machine.launch(code, metadata.name, *data, **options)
    finally:
        for low, _ in allowed:
            machine.memory.free(low)


def _watched(machine: Machine, code: Code, kernel: str, data: list[bytes], allowed: Ranges, options: dict[str, Any]) -> Run:
    """Runs a kernel on copies of the memory that it may access. Eight-byte parameters that are addresses in it, and tensor maps, are
    relocated to the copies."""
    copies = [(low, high, machine.alloc(high - low)) for low, high in allowed]
    for low, high, buffer in copies:
        buffer.write(_bytes_at(low, high - low))

    def moved(raw: bytes) -> bytes:
        if len(raw) not in (8, tensor_maps.SIZE):
            return raw
        address = int.from_bytes(raw[:8], "little")
        found = next((buffer.address + address - low for low, high, buffer in copies if low <= address < high), address)
        return found.to_bytes(8, "little") + raw[8:]

    try:
        return machine.launch(code, kernel, *[moved(raw) for raw in data], **options)
    finally:
        for low, high, buffer in copies:
            _bytes_at(low, high - low)[:] = buffer.read()


def _bytes_at(address: int, size: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)


# --- arguments


def _parameters(descriptions: list[Any], types: Sequence[Any], arguments: Sequence[Any], ranges: Ranges) -> list[bytes]:
    """The bytes of the parameters. The memory that the kernel may access is added to `ranges`."""
    found: list[bytes] = []
    for type_, given in zip(types, arguments, strict=True):
        if isinstance(type_, tuple):
            found += _parameters(descriptions, [t for t in type_ if t != "constexpr"], given, ranges)
        elif type_ == "constexpr":
            continue
        elif type_.startswith("tensordesc"):
            found += _described(given, descriptions.pop(0) if descriptions else None, ranges)
        elif type_.startswith("*"):
            found.append(_address(given, ranges).to_bytes(8, "little"))
        elif type_ == "bf16":
            found.append((np.float32(given).view(np.uint32) >> np.uint32(16)).astype(np.uint16).tobytes())
        else:
            found.append(_scalar(given, _SCALARS[type_]))
    return found


def _scalar(given: Any, kind: str) -> bytes:
    if kind[0] == "f":
        return np.array(given, kind).tobytes()
    size = int(kind[1])
    return (int(given) % (1 << 8 * size)).to_bytes(size, "little")


def _address(given: Any, ranges: Ranges) -> int:
    """The address of an array. All memory that it is a view of may be accessed."""
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    if isinstance(given, np.ndarray):
        ranges.append(_bounds(given))
        return int(given.ctypes.data)
    storage = getattr(given, "untyped_storage", None)
    if storage is not None:
        ranges.append((storage().data_ptr(), storage().data_ptr() + storage().nbytes()))
    else:
        ranges.append((given.data_ptr(), given.data_ptr() + given.nbytes))
    return int(given.data_ptr())


def _writable() -> Ranges:
    """All writable memory of this process."""
    with open("/proc/self/maps", encoding="ascii") as file:  # noqa: PTH123
        lines = [line.split(maxsplit=2) for line in file]
    return [(int(place.split("-")[0], 16), int(place.split("-")[1], 16)) for place, rights, _ in lines if rights.startswith("rw")]


def _bounds(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    while isinstance(array.base, np.ndarray):
        array = array.base
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)


def _merged(ranges: Ranges) -> Ranges:
    """The ranges merged, without overlaps."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if low == high:
            continue
        if found and low < found[-1][1]:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _described(given: Any, description: Any, ranges: Ranges) -> list[bytes]:
    """The parameters of a tensor descriptor: a tensor map if the target has them, otherwise its parts; then shape and strides again."""
    base = _address(given.base, ranges)
    shape, strides = [int(n) for n in given.shape], [int(n) for n in given.strides]
    wide = [n.to_bytes(8, "little") for n in (*shape, *strides)]
    again = [*[n.to_bytes(4, "little") for n in shape], *wide[len(shape) :]]
    if description is None:
        flags = [bytes([given.padding == "nan"]), bytes([bool(getattr(given, "round_f32_to_tf32", False))])]
        return [base.to_bytes(8, "little"), *wide, *flags, *again]
    size = description["elem_size"]
    dims = list(shape)
    if description["fp4_padded"]:
        dims[-1] *= 2
    rounds = bool(getattr(given, "round_f32_to_tf32", False))
    type_ = ".tf32" if rounds else tensor_maps.ELEMENTS[description["elem_type"]]
    made = tensor_maps.encode(
        base,
        type_,
        dims[::-1],
        [stride * size for stride in strides[-2::-1]],
        list(description["block_size"])[::-1],
        [1] * len(dims),
        swizzle=_SWIZZLES[description["swizzle"]],
        fill="nan" if given.padding == "nan" else "zero",
    )
    return [made, *again]


# --- Triton's own launches


def activate(architecture: int = 90, schedule: str | int | None = None, checks: str | Sequence[str] = (), everywhere: bool = False) -> None:
    """Makes the machine Triton's GPU, of compute capability 9.0 for 90. Tensors stay on the device `cpu`.

    With `everywhere`, a kernel may access all memory of this process, not only that of its arguments, as needed for kernels that load
    addresses from memory. Linux only.
    """
    from triton.runtime import driver

    driver.set_active(_Driver(architecture, schedule, checks, everywhere))


class _Launcher:
    """The launcher that Triton calls. It takes the PTX from the files of the compilation."""

    def __init__(self, source: Any, metadata: Any, driver: _Driver) -> None:
        from triton.runtime.cache import get_cache_manager

        self.metadata, self.driver = metadata, driver
        self.types = list(source.signature.values())
        path = get_cache_manager(metadata.hash).get_file(f"{metadata.name}.ptx")
        if path is None:
            raise Fault("launch", f"the PTX of `{metadata.name}` is not in Triton's cache")
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            self.ptx = file.read()

    def __call__(self, x: int, y: int, z: int, *given: Any) -> None:
        # before the arguments come stream, function, two kinds of metadata and two hooks
        arguments = given[6:]
        if not x * y * z:
            return
        pairs = [(t, a) for t, a in zip(self.types, arguments, strict=True) if t != "constexpr"]
        run = _run(
            self.metadata, self.ptx, (x, y, z), [t for t, _ in pairs], [a for _, a in pairs],
            self.driver.schedule, None, self.driver.checks, self.driver.everywhere,
        )  # fmt: skip
        if run.output:
            print(run.output, end="")
        self.driver.findings += run.findings


class _Driver:
    """A GPU driver in the form that Triton expects."""

    def __init__(self, architecture: int, schedule: str | int | None, checks: str | Sequence[str], everywhere: bool) -> None:
        self.architecture, self.schedule, self.checks, self.everywhere = architecture, schedule, checks, everywhere
        self.findings: tuple[Any, ...] = ()
        self.utils = self

    def launcher_cls(self, source: Any, metadata: Any) -> _Launcher:
        return _Launcher(source, metadata, self)

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", self.architecture, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.architecture // 10, self.architecture % 10

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": shared_limit(TARGETS.get(self.architecture, f"sm_{self.architecture}")),
            "max_num_regs": 1 << 16,
            "multiprocessor_count": 132,
            "warpSize": 32,
            "sm_clock_rate": 1_000_000,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 5120,
        }

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """Module, function, registers, spills, and maximum threads of a CTA. Nothing is loaded before the launch."""
        return 1, 1, 32, 0, 1024

    def map_python_to_cpp_type(self, type_: str) -> str:
        return type_

    def get_benchmarker(self) -> Any:
        """A benchmarker that measures nothing: of several configurations, the first is as good as any."""

        def benchmark(call: Any, *, quantiles: Sequence[float] | None = None, **_: Any) -> list[float]:
            call()
            return [1.0] * len(quantiles or (1,))

        return benchmark
