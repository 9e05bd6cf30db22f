"""The driver's functions, called as a program does that has no cuda-bindings: results, handles, memory, launches, what goes wrong."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxkit.isa.targets import NEWEST
from ptxkit.machine import driver as package
from ptxkit.machine.driver import LOG, STATE, Settings
from ptxkit.machine.driver.python import MODULE as driver

SCALE = (Path(__file__).resolve().parents[3] / "fixtures" / "profiling" / "scale.ptx").read_text()
HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"


@pytest.fixture(autouse=True)
def context() -> Iterator[int]:
    """A driver as a process finds it, with its primary context current."""
    STATE.settings = Settings()
    STATE.clear()
    ok(driver.cuInit(0))
    found = ok(driver.cuDevicePrimaryCtxRetain(0))
    ok(driver.cuCtxSetCurrent(found))
    yield found
    STATE.clear()


def ok(result: tuple[Any, ...]) -> Any:
    """What a call gives that went well."""
    code, *values = result
    assert code == driver.CUresult.CUDA_SUCCESS, (code, LOG[-1:])
    return values[0] if len(values) == 1 else tuple(values) or None


def name_of(result: tuple[Any, ...]) -> str:
    return str(result[0].name)


def kernel(text: str, name: bytes = b"k") -> int:
    return ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(text.encode() + b"\0")), name))  # type: ignore[no-any-return]


def launch(function: int, *arguments: bytes, grid: int = 1, block: int = 32, shared: int = 0) -> tuple[Any, ...]:
    held = [ctypes.create_string_buffer(one, len(one)) for one in arguments]
    places = (ctypes.c_void_p * max(len(held), 1))(*[ctypes.addressof(one) for one in held])
    return driver.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, 0, places, 0)  # type: ignore[no-any-return]


def pointer(address: int) -> bytes:
    return address.to_bytes(8, "little")


def writes(body: str, before: str = "") -> str:
    """A kernel that stores `%r1`, which the body computes, at its thread's number."""
    return f"""{HEAD}{before}
.visible .entry k(.param .u64 out)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [out]; mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2;
    {body}
    st.global.u32 [%rd3], %r1; ret;
}}
"""


def test_the_device_is_of_the_target() -> None:
    assert ok(driver.cuDeviceGetCount()) == 1
    assert ok(driver.cuDeviceComputeCapability(0)) == (9, 0)
    kinds = driver.CUdevice_attribute
    assert ok(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0)) == 32
    assert ok(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0)) == 227 << 10
    STATE.settings = Settings("sm_80")
    assert ok(driver.cuDeviceGetAttribute(kinds.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0)) == 0
    assert b"sm_80" in ok(driver.cuDeviceGetName(64, 0))
    assert name_of(driver.cuDeviceGet(1)) == "CUDA_ERROR_INVALID_DEVICE"


def test_the_version_is_that_of_the_newest_ptx() -> None:
    major, minor = NEWEST
    assert ok(driver.cuDriverGetVersion()) == 1000 * (major + 4) + 10 * minor


def test_errors_have_names_and_words() -> None:
    assert ok(driver.cuGetErrorName(700)) == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert ok(driver.cuGetErrorString(0)) == b"no error"
    assert name_of(driver.cuGetErrorName(123456)) == "CUDA_ERROR_INVALID_VALUE"


def test_contexts_are_a_stack_of_the_thread(context: int) -> None:
    own = ok(driver.cuCtxCreate_v2(0, 0))
    assert ok(driver.cuCtxGetCurrent()) == own
    assert ok(driver.cuCtxPopCurrent()) == own
    assert ok(driver.cuCtxGetCurrent()) == context
    ok(driver.cuCtxDestroy(own))
    assert name_of(driver.cuCtxPushCurrent(own)) == "CUDA_ERROR_INVALID_HANDLE"


def test_memory_is_copied_filled_and_found_again() -> None:
    x = np.arange(100, dtype=np.uint32)
    address = ok(driver.cuMemAlloc(400))
    ok(driver.cuMemcpyHtoD(address, x, 400))
    ok(driver.cuMemsetD32(address + 40, 7, 10))
    back = np.zeros(100, np.uint32)
    ok(driver.cuMemcpyDtoH(back, address, 400))
    assert back[:10].tolist() == list(range(10)) and (back[10:20] == 7).all() and (back[20:] == x[20:]).all()
    assert ok(driver.cuMemGetAddressRange(address + 100)) == (address, 400)
    kinds = driver.CUpointer_attribute
    assert ok(driver.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)) == 2
    assert ok(driver.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_RANGE_SIZE, address + 8)) == 400
    assert name_of(driver.cuMemcpyDtoH(back, address, 404)) == "CUDA_ERROR_INVALID_VALUE"
    ok(driver.cuMemFree(address))
    assert name_of(driver.cuMemFree(address)) == "CUDA_ERROR_INVALID_VALUE"


def test_nothing_is_copied_from_anywhere() -> None:
    source = np.zeros(1, np.uint8)
    ok(driver.cuMemcpyHtoDAsync(0, source, 0, 0))
    ok(driver.cuMemcpyDtoH(source, 0, 0))
    assert name_of(driver.cuMemcpyHtoD(0, source, 1)) == "CUDA_ERROR_INVALID_VALUE"


def test_host_memory_that_is_registered_is_seen_by_kernels() -> None:
    x = np.zeros(32, np.uint32)
    ok(driver.cuMemHostRegister(x.ctypes.data, x.nbytes, 0))
    ok(launch(kernel(writes("mov.u32 %r1, %r2;")), pointer(x.ctypes.data)))
    ok(driver.cuMemHostUnregister(x.ctypes.data))
    assert x.tolist() == list(range(32))


def test_a_module_has_kernels_variables_and_attributes() -> None:
    module = ok(driver.cuModuleLoadData(writes("mov.u32 %r1, 3;", ".visible .global .u32 g[4] = {1, 2, 3, 4};").encode()))
    address, size = ok(driver.cuModuleGetGlobal(module, b"g"))
    found = np.zeros(4, np.uint32)
    ok(driver.cuMemcpyDtoH(found, address, size))
    assert found.tolist() == [1, 2, 3, 4]
    function = ok(driver.cuModuleGetFunction(module, b"k"))
    kinds = driver.CUfunction_attribute
    assert ok(driver.cuFuncGetAttribute(kinds.CU_FUNC_ATTRIBUTE_PTX_VERSION, function)) == 85
    assert ok(driver.cuFuncGetParamInfo(function, 0)) == (0, 8)
    assert name_of(driver.cuFuncGetParamInfo(function, 1)) == "CUDA_ERROR_INVALID_VALUE"
    assert name_of(driver.cuModuleGetFunction(module, b"nothing")) == "CUDA_ERROR_NOT_FOUND"
    assert name_of(driver.cuModuleGetGlobal(module, b"nothing")) == "CUDA_ERROR_NOT_FOUND"
    ok(driver.cuModuleUnload(module))
    assert name_of(driver.cuFuncGetName(function)) == "CUDA_ERROR_INVALID_HANDLE"


@pytest.mark.parametrize(
    ("image", "result", "words"),
    [
        (b"\x7fELF machine code", "CUDA_ERROR_NO_BINARY_FOR_GPU", "no PTX"),
        (HEAD.encode() + b".visible .entry k() { ad s; }", "CUDA_ERROR_INVALID_PTX", "line 4"),
        (
            HEAD.replace("sm_90", "sm_100").encode() + b".visible .entry k() { ret; }",
            "CUDA_ERROR_INVALID_PTX",
            "sm_100 does not run on sm_90a",
        ),
    ],
)
def test_what_cannot_be_loaded_says_why_in_the_log(image: bytes, result: str, words: str) -> None:
    option, log = driver.CUjit_option, bytearray(500)
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    assert name_of(driver.cuModuleLoadDataEx(image + b"\0", 2, options, [log, len(log)])) == result
    assert words in log.split(b"\0")[0].decode()


def test_texts_are_linked_and_know_only_each_other() -> None:
    caller = writes("call (%r1), twice, (%r2);", ".extern .func (.reg .b32 r) twice (.reg .b32 x);")
    callee = HEAD + ".visible .func (.reg .b32 r) twice (.reg .b32 x) { add.u32 r, x, x; ret; }"
    link = ok(driver.cuLinkCreate(0, 0, 0))
    for text in (caller, callee):
        ok(driver.cuLinkAddData(link, 1, text.encode(), len(text), b"", 0, 0, 0))
    image, size = ok(driver.cuLinkComplete(link))
    data = ctypes.string_at(image, size)
    ok(driver.cuLinkDestroy(link))
    # a function of the same name in a module that was loaded apart is another
    ok(driver.cuModuleLoadData(callee.replace("add.u32 r, x, x", "mov.u32 r, 9").encode()))
    function = ok(driver.cuModuleGetFunction(ok(driver.cuModuleLoadData(data)), b"k"))
    out = ok(driver.cuMemAllocManaged(128, 1))
    ok(launch(function, pointer(out)))
    assert np.frombuffer(ctypes.string_at(out, 128), np.uint32).tolist() == list(range(0, 64, 2))


def test_a_launch_takes_its_parameters_from_a_buffer_too() -> None:
    out = ok(driver.cuMemAlloc(128))
    buffer, size = ctypes.create_string_buffer(pointer(out), 8), ctypes.c_size_t(8)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    function = kernel(writes("add.u32 %r1, %r2, 1;"))
    ok(driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, 0, 0, extra))
    assert np.frombuffer(ctypes.string_at(out, 128), np.uint32).tolist() == list(range(1, 33))


def test_clusters_and_dynamic_shared_memory_are_attributes() -> None:
    function = kernel(writes("mov.u32 %r1, %cluster_nctarank;", ".extern .shared .b8 s[];"))
    out = ok(driver.cuMemAlloc(128))
    config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
    config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = 32, 1, 1
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = 4, 1, 1
    config.attrs, config.numAttrs = [attribute], 1
    held = ctypes.create_string_buffer(pointer(out), 8)
    places = (ctypes.c_void_p * 1)(ctypes.addressof(held))
    ok(driver.cuLaunchKernelEx(config, function, places, 0))
    assert set(np.frombuffer(ctypes.string_at(out, 128), np.uint32).tolist()) == {4}
    assert name_of(launch(function, pointer(out), shared=100 << 10)) == "CUDA_ERROR_INVALID_VALUE"
    ok(driver.cuFuncSetAttribute(function, driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10))
    ok(launch(function, pointer(out), shared=100 << 10))
    assert name_of(launch(function, pointer(out), block=2048)) == "CUDA_ERROR_INVALID_VALUE"


def test_an_attribute_makes_a_launch_cooperative() -> None:
    function = kernel(writes("mov.u32 %r1, %envreg2; setp.ne.u32 %p1, %r1, 0; selp.u32 %r1, 1, 0, %p1;"))
    out = ok(driver.cuMemAlloc(128))
    held, found = ctypes.create_string_buffer(pointer(out), 8), []
    for value in (0, 1):
        config, attribute = driver.CUlaunchConfig(), driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = value
        for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ", "numAttrs"):
            setattr(config, name, 1)
        config.attrs = [attribute]
        places = (ctypes.c_void_p * 1)(ctypes.addressof(held))
        ok(driver.cuLaunchKernelEx(config, function, places, 0))
        found.append(ctypes.c_uint32.from_address(out).value)
    assert found == [0, 1]


def test_a_fault_is_what_later_calls_report() -> None:
    ok(launch(kernel(writes("mov.u32 %r1, 1;")), pointer(0)))  # it is asynchronous on a GPU
    assert name_of(driver.cuCtxSynchronize()) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert name_of(driver.cuMemAlloc(8)) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert STATE.faults[0].kind == "address"


def test_streams_and_events() -> None:
    stream, event = ok(driver.cuStreamCreate(1)), ok(driver.cuEventCreate(0))
    ok(driver.cuEventRecord(event, stream))
    ok(driver.cuStreamWaitEvent(0, event, 0))
    ok(driver.cuStreamQuery(stream))
    assert ok(driver.cuEventElapsedTime(event, event)) == 0
    ok(driver.cuStreamDestroy(stream))
    assert name_of(driver.cuStreamSynchronize(stream)) == "CUDA_ERROR_INVALID_HANDLE"


def test_memory_of_a_pool_is_counted() -> None:
    pool = ok(driver.cuDeviceGetDefaultMemPool(0))
    address = ok(driver.cuMemAllocAsync(1000, 0))
    used = ctypes.c_uint64()
    ok(driver.cuMemPoolGetAttribute(pool, driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT, ctypes.addressof(used)))
    assert used.value == 1000
    ok(driver.cuMemFreeAsync(address, 0))


def test_occupancy_has_the_limits_of_the_multiprocessor() -> None:
    function = kernel(writes("mov.u32 %r1, 1;", ".shared .b8 s[32768];"))
    assert ok(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 1024, 0)) == 2
    assert ok(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 128, 40 << 10)) == 5
    assert ok(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 2000, 0)) == 0


def test_functions_are_found_by_name_and_version() -> None:
    old, new = (ok(driver.cuGetProcAddress(b"cuCtxCreate", version, 0)) for version in (4000, 13000))
    assert old != new and old == package.address("cuCtxCreate")
    ctypes.CFUNCTYPE(ctypes.c_int)(ok(driver.cuGetProcAddress(b"cuNothingLikeIt", 13000, 0)))()
    assert STATE.absent == {"cuNothingLikeIt": 1}


def test_a_tensor_map_is_made_where_it_can_be() -> None:
    x = np.zeros((8, 32), np.float32)
    room = (ctypes.c_uint8 * 256)()
    place = -(-ctypes.addressof(room) // 64) * 64
    wide, narrow = ctypes.c_uint64 * 2, ctypes.c_uint32 * 2
    given = (wide(32, 8), (ctypes.c_uint64 * 1)(128), narrow(16, 4), narrow(1, 1), 0, 0, 0, 0)
    address = -(-x.ctypes.data // 16) * 16
    ok(driver.cuTensorMapEncodeTiled(place, 7, 2, address, *given))
    assert int.from_bytes(ctypes.string_at(place, 8), "little") == address
    assert name_of(driver.cuTensorMapEncodeTiled(place, 7, 2, address + 4, *given)) == "CUDA_ERROR_INVALID_VALUE"


def test_threads_launch_at_the_same_time() -> None:
    text = writes("mov.u32 %r3, 0;\nagain: add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 50; @%p1 bra again; add.u32 %r1, %r2, %r3;")
    function = kernel(text)

    def use(_: int) -> bool:
        ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(0))))
        found = []
        for _ in range(20):
            out = ok(driver.cuMemAlloc(128))
            ok(launch(function, pointer(out)))
            values = np.zeros(32, np.uint32)
            ok(driver.cuMemcpyDtoH(values, out, 128))
            ok(driver.cuMemFree(out))
            found.append((values == np.arange(32) + 50).all())
        return all(found)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as threads:
            assert all(threads.map(use, range(3)))
    finally:
        sys.setswitchinterval(before)
