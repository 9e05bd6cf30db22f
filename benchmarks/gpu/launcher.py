"""Runs the kernels of a plan on the GPU and compares variants of a module with the original. Needs nothing but Python and a CUDA driver.

    python launcher.py PLAN.zip RECORD.json.gz [--workers N] [--limit SECONDS]

The plan, which `prepare.py` makes, holds `plan.json` and the PTX texts. Each job is a module with its launches and its variants. A variant
is loaded, launched and compared with the original in one process, and on the same input. That process is a child of this one: one that
does not report for `--limit` seconds is ended and the launch counts as hung; after an error of the device, which spoils the context for
good, a fresh child goes on with the next launch. The record says for each launch what came of it; `figures.py` makes figures of it.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import ctypes
import gzip
import json
import lzma
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# --- the driver -------------------------------------------------------------------------------------------------------------------

Pointer = ctypes.c_void_p
Address = ctypes.c_uint64
Size = ctypes.c_size_t
Unsigned = ctypes.c_uint


class DriverError(Exception):
    """A call of the driver that did not return 0."""


_library: list[ctypes.CDLL] = []


def driver() -> ctypes.CDLL:
    """The driver's library, loaded at the first call. Raises OSError where there is none."""
    if not _library:
        _library.append(ctypes.CDLL("libcuda.so.1"))
    return _library[0]


def call(function: str, *arguments: Any) -> None:
    """Calls the driver. Raises DriverError with the function and the name of the error."""
    code = getattr(driver(), function)(*arguments)
    if code:
        name = ctypes.c_char_p()
        driver().cuGetErrorName(code, ctypes.byref(name))
        raise DriverError(f"{function}: {(name.value or b'error').decode()} ({code})")


class Launch(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", Unsigned * 3),
        ("block", Unsigned * 3),
        ("shared", Unsigned),
        ("stream", Pointer),
        ("attributes", Pointer),
        ("attribute_count", Unsigned),
    ]


class ClusterAttribute(ctypes.Structure):
    """CUlaunchAttribute of a cluster's size."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("cluster", Unsigned * 3), ("rest", ctypes.c_char * 52)]


class ArrayShape(ctypes.Structure):
    """CUDA_ARRAY3D_DESCRIPTOR."""

    _fields_ = [("width", Size), ("height", Size), ("depth", Size), ("format", Unsigned), ("channels", Unsigned), ("flags", Unsigned)]


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        ("source_x", Size),
        ("source_y", Size),
        ("source_type", Unsigned),
        ("source_host", Pointer),
        ("source_device", Address),
        ("source_array", Pointer),
        ("source_pitch", Size),
        ("target_x", Size),
        ("target_y", Size),
        ("target_type", Unsigned),
        ("target_host", Pointer),
        ("target_device", Address),
        ("target_array", Pointer),
        ("target_pitch", Size),
        ("width_bytes", Size),
        ("height", Size),
    ]


MEMORY_HOST, MEMORY_ARRAY = 1, 3
FORMATS = {"i32": 0x0A, "f32": 0x20}
SURFACE, GATHER = 2, 8
LINEAR, ARRAY = 2, 0
CLAMPED, POINT, AS_INTEGERS = 1, 0, 1
CLUSTER_DIMENSION = 4
MAX_DYNAMIC_SHARED = 8
TENSOR_TYPES = {"f16": 6, "f32": 7}
SWIZZLES = {"none": 0, "128B": 3}
SMALLER = [{"id": lzma.FILTER_DELTA, "dist": 8}, {"id": lzma.FILTER_LZMA2, "preset": 0}]
"""How buffers are packed: they hold zeros, and addresses that differ by as much again and again."""
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6


def start() -> None:
    """Makes the first device's context the current one."""
    device, context = ctypes.c_int(), Pointer()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)


def describe() -> dict[str, str]:
    """The device and the driver, for the record."""
    start()
    name, version = ctypes.create_string_buffer(128), ctypes.c_int()
    major, minor = ctypes.c_int(), ctypes.c_int()
    call("cuDeviceGetName", name, 128, 0)
    call("cuDriverGetVersion", ctypes.byref(version))
    call("cuDeviceGetAttribute", ctypes.byref(major), 75, 0)
    call("cuDeviceGetAttribute", ctypes.byref(minor), 76, 0)
    question = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    shown = subprocess.run(question, capture_output=True, text=True, check=False)
    return {
        "device": name.value.decode(),
        "capability": f"{major.value}.{minor.value}",
        "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}",
        "driver": shown.stdout.strip().partition("\n")[0],
        "python": sys.version.split()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def load(text: str) -> Pointer:
    """A module of PTX. Raises DriverError with the compiler's words."""
    module, log = Pointer(), ctypes.create_string_buffer(1 << 14)
    options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
    values = (Pointer * 2)(ctypes.addressof(log), len(log))
    try:
        call("cuModuleLoadDataEx", ctypes.byref(module), text.encode("utf-8", "surrogateescape") + b"\0", 2, options, values)
    except DriverError as error:
        raise DriverError(f"{error}: {log.value.decode(errors='replace')[:600]}") from None
    return module


# --- input ------------------------------------------------------------------------------------------------------------------------

ELEMENTS = {
    "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f16": "e", "f32": "f", "f64": "d",
}  # fmt: skip


MAGNITUDE = {"f16": 4, "f32": 30, "f64": 200}
"""Powers of ten up to which, and down to which, floats reach that are spread out."""


def filled(kind: str, count: int, fill: str, high: int | None, seed: int, spread: bool = False) -> bytes:
    """The bytes of a buffer as `launch.toml` words it; with `spread`, what is random has extremes in it."""
    if kind == "bf16":
        full = struct.pack(f"<{count}f", *_numbers("f32", count, fill, high, seed, spread))
        return b"".join([full[at + 2 : at + 4] for at in range(0, len(full), 4)])
    return struct.pack(f"<{count}{ELEMENTS[kind]}", *_numbers(kind, count, fill, high, seed, spread))


def _numbers(kind: str, count: int, fill: str, high: int | None, seed: int, spread: bool) -> Iterable[int | float]:
    if fill == "zeros":
        return [0] * count
    if fill == "iota":
        return range(count)
    lot = random.Random(seed)
    if kind.startswith("f"):
        return [_extreme(lot, MAGNITUDE[kind]) if spread else lot.random() for _ in range(count)]
    bound = high or (256 if kind.endswith("8") and len(kind) == 2 else 1000)
    # integers may be indices: none lies outside of what the launch is made for
    numbers = [lot.choice((0, bound - 1, lot.randrange(bound))) if spread else lot.randrange(bound) for _ in range(count)]
    return [(n + 128) % 256 - 128 for n in numbers] if kind == "i8" else numbers


def _extreme(lot: random.Random, magnitude: int) -> float:
    if lot.random() < 0.3:
        return lot.choice((0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf))
    if lot.random() < 0.5:
        return lot.uniform(-1000, 1000)
    return lot.choice((1, -1)) * lot.random() * 10.0 ** lot.randint(-magnitude, magnitude)


def length_of(argument: dict[str, Any]) -> int:
    """How many elements an argument's memory has."""
    return int(argument.get("length") or argument["shape"][0] * argument["shape"][1])


# --- one launch -------------------------------------------------------------------------------------------------------------------


class Held:
    """What a launch holds on the device until it is over."""

    def __init__(self) -> None:
        self.memory: list[Address] = []
        self.arrays: list[Pointer] = []
        self.textures: list[Address] = []
        self.surfaces: list[Address] = []

    def buffer(self, data: bytes) -> Address:
        """Device memory with these bytes."""
        address = Address()
        call("cuMemAlloc_v2", ctypes.byref(address), Size(max(len(data), 1)))
        self.memory.append(address)
        call("cuMemcpyHtoD_v2", address, data, Size(len(data)))
        return address

    def zeros(self, size: int) -> Address:
        """Device memory of zeros."""
        address = Address()
        call("cuMemAlloc_v2", ctypes.byref(address), Size(max(size, 1)))
        self.memory.append(address)
        call("cuMemsetD8_v2", address, 0, Size(size))
        return address

    def array(self, kind: str, shape: Sequence[int], data: bytes, flags: int) -> Pointer:
        """A two-dimensional array with these bytes."""
        array, (rows, columns) = Pointer(), shape
        call("cuArray3DCreate_v2", ctypes.byref(array), ctypes.byref(ArrayShape(columns, rows, 0, FORMATS[kind], 1, flags)))
        self.arrays.append(array)
        host = ctypes.create_string_buffer(data, len(data))
        copy = Copy2D(source_type=MEMORY_HOST, source_host=ctypes.addressof(host), source_pitch=columns * 4)
        copy.target_type, copy.target_array, copy.width_bytes, copy.height = MEMORY_ARRAY, array.value, columns * 4, rows
        call("cuMemcpy2D_v2", ctypes.byref(copy))
        return array

    def texture(self, argument: dict[str, Any], data: bytes) -> Address:
        """A texture object: of an array if it has a shape, else of linear memory."""
        kind, found = argument["texture"], Address()
        resource = bytearray(144)
        if "shape" in argument:
            array = self.array(kind, argument["shape"], data, GATHER)
            struct.pack_into("<i4xQ", resource, 0, ARRAY, array.value)
        else:
            struct.pack_into("<i4xQiIQ", resource, 0, LINEAR, self.buffer(data).value, FORMATS[kind], 1, len(data))
        view = bytearray(104)
        struct.pack_into("<4iI", view, 0, CLAMPED, CLAMPED, CLAMPED, POINT, 0 if kind == "f32" else AS_INTEGERS)
        call("cuTexObjectCreate", ctypes.byref(found), bytes(resource), bytes(view), None)
        self.textures.append(found)
        return found

    def surface(self, argument: dict[str, Any], data: bytes) -> Address:
        """A surface object of an array."""
        found, resource = Address(), bytearray(144)
        struct.pack_into("<i4xQ", resource, 0, ARRAY, self.array(argument["surface"], argument["shape"], data, SURFACE).value)
        call("cuSurfObjectCreate", ctypes.byref(found), bytes(resource))
        self.surfaces.append(found)
        return found

    def free(self) -> None:
        """Gives all of it back."""
        for name, things in (
            ("cuTexObjectDestroy", self.textures),
            ("cuSurfObjectDestroy", self.surfaces),
            ("cuArrayDestroy", self.arrays),
            ("cuMemFree_v2", self.memory),
        ):
            for thing in things:
                call(name, thing)


def tensor_map(argument: dict[str, Any], address: Address, item: int) -> ctypes.Array[ctypes.c_char]:
    """A CUtensorMap of a row-major buffer; it must lie at a multiple of 64."""
    room = (ctypes.c_char * 192)()
    found = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
    (rows, columns), (box_rows, box_columns) = argument["shape"], argument["box"]
    call(
        "cuTensorMapEncodeTiled",
        found,
        TENSOR_TYPES[argument["tensormap"]],
        2,
        Pointer(address.value),
        (ctypes.c_uint64 * 2)(columns, rows),
        (ctypes.c_uint64 * 1)(columns * item),
        (Unsigned * 2)(box_columns, box_rows),
        (Unsigned * 2)(1, 1),
        0,
        SWIZZLES[argument["swizzle"]],
        0,
        0,
    )
    return found


class Capture(NamedTuple):
    """A buffer of zeros, of `rows` times `row` bytes, which a kernel takes after all its arguments; `take` says which rows matter."""

    rows: int
    row: int
    take: tuple[int, ...]


class Watch(NamedTuple):
    """What a module with probes needs: a buffer of zeros, whose regions (offset, rows, bytes from copy to copy) are named in a variable.

    The variable ends in room for so many allocations, in which those that the kernel may touch are named. `globals` are variables that are
    zeroed before and read back after, with their bytes; their contents follow those of the buffer.
    """

    symbol: str
    symbol_bytes: int
    bytes: int
    regions: tuple[tuple[int, int, int], ...]
    allocations: int = 0
    variables: tuple[str, ...] = ()
    globals: tuple[tuple[str, int], ...] = ()
    keep: bool = True
    """Whether what the buffer holds goes into the record."""
    hide: int = -1
    """An argument whose memory is not named among the allocations: as if it were not there."""


def variable(module: Pointer, name: str) -> tuple[Address, int]:
    """Where a variable of a module is, and its bytes."""
    address, size = Address(), Size()
    call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, name.encode())
    return address, int(size.value)


def arm(module: Pointer, watch: Watch, held: Held, known: list[tuple[int, int]]) -> Address:
    """Gives a module with probes its buffer, which it returns. `known` are the addresses and sizes of the arguments' memory."""
    buffer = held.zeros(watch.bytes)
    start = buffer.value or 0
    words = b"".join([struct.pack("<4Q", start + offset, rows, stride, 0) for offset, rows, stride in watch.regions])
    if watch.allocations:
        for name in watch.variables:
            where, size = variable(module, name)
            known.append((where.value or 0, size))
        listed = b"".join([struct.pack("<2Q", *one) for one in known])
        words = words.ljust(watch.symbol_bytes - 16 * watch.allocations, b"\0") + listed.ljust(16 * watch.allocations, b"\0")
    if watch.symbol_bytes:
        if len(words) > watch.symbol_bytes:
            raise DriverError(f"{len(known)} allocations, and there is room for {watch.allocations}")
        where, _ = variable(module, watch.symbol)
        call("cuMemcpyHtoD_v2", where, words, Size(len(words)))
    for name, size in watch.globals:
        where, _ = variable(module, name)
        call("cuMemcpyHtoD_v2", where, bytes(size), Size(size))
    return buffer


class Output(NamedTuple):
    """What a kernel left in one of its arguments."""

    argument: int
    item: int
    compare: str
    data: bytes


class Ran(NamedTuple):
    """What came of a launch: outputs, the arguments as they were passed, and the rows that were captured."""

    outputs: list[Output]
    arguments: list[bytes]
    captured: bytes


def run(module: Pointer, kernel: dict[str, Any], entry: str, capture: Capture | None = None, watch: Watch | None = None) -> Ran:
    """Launches a kernel once, which has this name in the module."""
    function = Pointer()
    call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
    if kernel.get("shared", 0) > 48 << 10:
        call("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, kernel["shared"])
    held = Held()
    known: list[tuple[int, int]] = []
    parameters: list[Any] = []
    outputs: list[tuple[int, int, str, Address, int]] = []
    for index, argument in enumerate(kernel["args"]):
        if "scalar" in argument:
            parameters.append(ctypes.c_int(argument["value"]))
            continue
        if "bytes" in argument:
            raw = bytes.fromhex(argument["bytes"])
            parameters.append((ctypes.c_char * len(raw)).from_buffer_copy(raw))
            continue
        kind = next(argument[word] for word in ("buffer", "tensormap", "texture", "surface") if word in argument)
        seed, spread = kernel.get("seed", 0) + index + 1, kernel.get("spread", False)
        data = filled(kind, length_of(argument), argument["fill"], argument.get("high"), seed, spread)
        if "texture" in argument:
            parameters.append(held.texture(argument, data))
        elif "surface" in argument:
            parameters.append(held.surface(argument, data))
        else:
            address = held.buffer(data)
            if watch is None or watch.hide != index:
                known.append((address.value or 0, len(data)))
            item = len(data) // length_of(argument)
            parameters.append(tensor_map(argument, address, item) if "tensormap" in argument else address)
            if argument.get("output"):
                outputs.append((index, item, argument.get("compare", "bits"), address, len(data)))
    given = [bytes(parameter) for parameter in parameters]
    rows = Address()
    if capture is not None:
        rows = held.buffer(bytes(capture.rows * capture.row))
        parameters.append(rows)
    buffer = arm(module, watch, held, known) if watch is not None else Address()
    _launch(function, kernel, parameters)
    found = [Output(index, item, compare, read(address, size)) for index, item, compare, address, size in outputs]
    left = read(rows, capture.rows * capture.row) if capture is not None else b""
    if watch is not None:
        left = read(buffer, watch.bytes)
        left += b"".join([read(variable(module, name)[0], size) for name, size in watch.globals])
        held.free()
        return Ran(found, given, left)
    held.free()
    if capture is not None and capture.take:
        left = b"".join([left[at * capture.row : (at + 1) * capture.row] for at in capture.take])
    return Ran(found, given, left)


def _launch(function: Pointer, kernel: dict[str, Any], parameters: list[Any]) -> None:
    where = (Pointer * len(parameters))(*[ctypes.addressof(parameter) for parameter in parameters])
    launch = Launch((Unsigned * 3)(*kernel["grid"]), (Unsigned * 3)(*kernel["block"]), kernel.get("shared", 0))
    cluster = ClusterAttribute(CLUSTER_DIMENSION, 0, (Unsigned * 3)(*kernel.get("cluster", (1, 1, 1))))
    if "cluster" in kernel:
        launch.attributes, launch.attribute_count = ctypes.addressof(cluster), 1
    call("cuLaunchKernelEx", ctypes.byref(launch), function, where, None)
    call("cuCtxSynchronize")


def read(address: Address, size: int) -> bytes:
    """What is in device memory."""
    data = ctypes.create_string_buffer(size)
    call("cuMemcpyDtoH_v2", data, address, Size(size))
    return data.raw


MEASURED = struct.Struct("<6Q")
"""A slot of `uniform.py`: visits, sums of values and of iterations, the iterations in which a branch was taken, and was not; unused."""
MOST_MEASURED = 2048
"""Threads of a launch that are compared with one another: those of its first CTAs."""


def agreements(rows: bytes, row: int, kernel: dict[str, Any]) -> list[tuple[int, int, int]]:
    """By slot of a row: the largest groups of threads that agreed; that all came by in the same iterations; and how many threads came by.

    Groups count from 1, the warp, to 5, the grid; 0 is no group at all.
    """
    threads = kernel["block"][0] * kernel["block"][1] * kernel["block"][2]
    cluster = threads
    for size in kernel.get("cluster", [1, 1, 1]):
        cluster *= size
    grid = kernel["grid"][0] * kernel["grid"][1] * kernel["grid"][2]
    # CTAs of a cluster stand side by side only where it extends in x
    has_rows = kernel.get("cluster", [1, 1, 1])[1:] == [1, 1]
    count = min(grid * threads, max(MOST_MEASURED // cluster, 1) * cluster)
    sizes = [32, 128, threads, cluster if has_rows else threads, count]
    found = []
    for slot in range(row // MEASURED.size):
        kept = [MEASURED.unpack_from(rows, thread * row + slot * MEASURED.size) for thread in range(count)]
        ctas = [kept[start : start + threads] for start in range(0, count, threads)]
        levels = []
        for of_values in (True, False):
            level = 0
            for place, size in enumerate(sizes):
                groups = (
                    [cta[start : start + size] for cta in ctas for start in range(0, threads, size)]
                    if place < 2
                    else [kept[start : start + size] for start in range(0, count, size)]
                )
                if not all(_agree(group) if of_values else len({(one[0], one[2]) for one in group}) == 1 for group in groups):
                    break
                level = place + 1
            levels.append(level)
        found.append((levels[0], levels[1], sum(1 for visits, *_ in kept if visits)))
    return found


def _agree(group: Sequence[tuple[int, ...]]) -> bool:
    """Whether threads that came by in the same iterations kept the same sum, and none went another way in an iteration than another."""
    sums: dict[tuple[int, int], int] = {}
    taken = passed = 0
    for visits, total, turns, took, did_not, _ in group:
        if visits and sums.setdefault((visits, turns), total) != total:
            return False
        taken |= took
        passed |= did_not
    return not taken & passed


def differences(expected: Sequence[Output], found: Sequence[Output]) -> list[str]:
    """In which arguments two runs differ, each compared as `launch.toml` says."""
    said = []
    for old, new in zip(expected, found, strict=True):
        if old.compare == "none":
            continue
        before, after = elements(old), elements(new)
        if old.compare == "sorted":
            before, after = sorted(before), sorted(after)
        wrong = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if wrong:
            at = wrong[0]
            said.append(f"argument {old.argument}: {len(wrong)} of {len(before)} differ, [{at}] {before[at].hex()} now {after[at].hex()}")
    return said


def elements(output: Output) -> list[bytes]:
    """The elements of an output, each as its bytes."""
    return [output.data[at : at + output.item] for at in range(0, len(output.data), output.item)]


# --- a job, in a child process ----------------------------------------------------------------------------------------------------


def steps(job: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """The launches of a job: variant and kernel by number."""
    for v, variant in enumerate(job["variants"]):
        for k, kernel in enumerate(job["kernels"]):
            if variant.get("only", kernel["entry"]) == kernel["entry"]:
                yield v, k


def child(plan: Path, job_number: int, first: int, record: Path) -> None:
    """Runs the launches of a job from number `first` on and adds a line to the record before and after each."""
    with zipfile.ZipFile(plan) as archive, record.open("a", encoding="utf-8") as lines:
        job = json.loads(archive.read("plan.json"))["jobs"][job_number]

        def say(**what: Any) -> None:
            lines.write(json.dumps(what) + "\n")
            lines.flush()

        def text(name: str) -> str:
            return archive.read(name).decode("utf-8", "surrogateescape")

        start()
        original = load(text(job["original"]))
        expected: dict[int, list[Output]] = {}
        loaded, module, trouble = -1, Pointer(), ""
        for number, (v, k) in enumerate(steps(job)):
            if number < first:
                continue
            variant, kernel = job["variants"][v], job["kernels"][k]
            say(step=number)
            if loaded != v:
                loaded, trouble = v, ""
                if module:
                    call("cuModuleUnload", module)
                module = Pointer()
                try:
                    module = load(text(variant["ptx"]))
                except DriverError as error:
                    trouble = str(error)
            if trouble:
                say(done=number, verdict="not loaded", detail=trouble)
                continue
            stage = "the original"
            try:
                if k not in expected:
                    expected[k] = run(original, kernel, kernel["entry"]).outputs
                stage = "the variant"
                entry = variant.get("entries", {}).get(kernel["entry"], kernel["entry"])
                capture = Capture(**variant["capture"]) if "capture" in variant else None
                watch = Watch(**variant["watch"][kernel["id"]]) if "watch" in variant else None
                ran = run(module, kernel, entry, capture, watch)
            except DriverError as error:
                say(done=number, verdict="error", detail=f"{stage}: {error}")
                sys.stdout.flush()
                os._exit(3)
            said = differences(expected[k], ran.outputs)
            result: dict[str, Any] = {"done": number, "verdict": "different" if said else "equal", "detail": "; ".join(said)}
            if capture is not None and variant["about"].get("measure"):
                result["levels"], result["block"] = agreements(ran.captured, capture.row, kernel), kernel["block"]
            elif capture is not None:
                result["captured"] = base64.b64encode(zlib.compress(ran.captured)).decode()
                result["arguments"] = [argument.hex() for argument in ran.arguments]
            if watch is not None and watch.keep:
                result["buffer"] = base64.b64encode(lzma.compress(ran.captured, filters=SMALLER)).decode()
                result["arguments"] = [argument.hex() for argument in ran.arguments]
            say(**result)


# --- all jobs, in the parent ------------------------------------------------------------------------------------------------------


def work(plan: Path, job_number: int, job: dict[str, Any], limit: float) -> list[dict[str, Any]]:
    """The results of a job's launches, from as many children as that takes."""
    all_steps = list(steps(job))
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "lines"
        while len(results) < len(all_steps):
            record.write_text("")
            ended = _attempt(plan, job_number, len(results), record, limit)
            said = [json.loads(line) for line in record.read_text().splitlines()]
            results += [line for line in said if "done" in line]
            if len(results) < len(all_steps) and not any("done" in line and line["verdict"] == "error" for line in said):
                results.append({"done": len(results), "verdict": "hung" if ended == "hung" else "error", "detail": ended})
    for (v, k), result in zip(all_steps, results, strict=True):
        kernel = job["kernels"][k]
        del result["done"]
        result.update(
            fixture=job["fixture"],
            target=job["target"],
            kernel=kernel["entry"],
            launch=kernel["id"],
            variant=job["variants"][v]["name"],
            about=job["variants"][v]["about"],
        )
    return results


def _attempt(plan: Path, job_number: int, first: int, record: Path, limit: float) -> str:
    """Runs one child to its end and says how it ended."""
    command = [sys.executable, __file__, str(plan), str(record), "--child", str(job_number), str(first)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    size, since = 0, time.monotonic()
    while True:
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            now = record.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            elif time.monotonic() - since > limit:
                process.kill()
                process.wait()
                return "hung"
            continue
        assert process.stderr is not None
        return f"the child ended with {process.returncode}: {process.stderr.read()[-600:]}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("plan", type=Path)
    arguments.add_argument("record", type=Path)
    arguments.add_argument("--workers", type=int, default=8)
    arguments.add_argument("--limit", type=float, default=40, help="seconds for one launch, its compilation included")
    arguments.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.child:
        number, first = options.child
        child(options.plan, number, first, options.record)
        return
    os.environ.update(CUDA_CACHE_DISABLE="1", CUDA_MODULE_LOADING="EAGER")
    begun = time.monotonic()
    with zipfile.ZipFile(options.plan) as archive:
        jobs = json.loads(archive.read("plan.json"))["jobs"]
    # those with the most text first: so that the longest does not come last
    order = sorted(range(len(jobs)), key=lambda number: -int(jobs[number]["weight"]))
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        found = list(pool.map(lambda number: work(options.plan, number, jobs[number], options.limit), order))
    results = [result for job in found for result in job]
    seconds = round(time.monotonic() - begun, 1)
    machine = describe()
    with gzip.open(options.record, "wt", encoding="utf-8") as out:
        json.dump({"machine": machine, "seconds": seconds, "results": results}, out)
    counts: dict[str, int] = {}
    for result in results:
        counts[result["verdict"]] = counts.get(result["verdict"], 0) + 1
        if result["verdict"] != "equal" and not result["about"].keys() & {"planted", "trap"}:
            shown = [str(result[key]) for key in ("fixture", "target", "launch", "variant", "verdict", "detail")]
            print("  ".join(shown)[:400])
    print(machine, f"{seconds} s", counts)


if __name__ == "__main__":
    main()
