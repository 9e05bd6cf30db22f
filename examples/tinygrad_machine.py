"""tinygrad's tests on the machine: the kernels of its mocked CUDA driver run without a GPU, and without the library that it asks for.

In a checkout of tinygrad, with this folder and ptxkit on PYTHONPATH:

    DEV=MOCK+CUDA:PTX python -m pytest -p tinygrad_machine test/test_tiny.py
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from ptxkit.machine import Code, Machine

MACHINE = Machine("sm_90a", host_memory=True)
load = functools.lru_cache(maxsize=4096)(MACHINE.load)
registered: dict[int, int] = {}


def ptx_run(source: Any, count: int, arguments: Any, bx: int, by: int, bz: int, gx: int, gy: int, gz: int, shared: int) -> None:
    """Launches the only kernel of a text. `arguments` are the values themselves, in the place of pointers to them."""
    allow(sys.modules["test.mockgpu.cuda.cuda"].cuda_state.memory)
    code: Code = load(source.value.decode())
    kernel = code.kernels[0]
    values = [arguments[i] or 0 for i in range(count)]
    sizes = [size for _, _, size, _ in code.program(kernel, False, False).layout()]
    data = [(value % (1 << 8 * size)).to_bytes(size, "little") for value, size in zip(values, sizes, strict=True)]
    MACHINE.launch(code, kernel, *data, grid=(gx, gy, gz), block=(bx, by, bz), shared=shared)


def allow(memory: dict[int, memoryview]) -> None:
    """Kernels may access what the mocked driver has allocated, and nothing else."""
    for address in [address for address, size in registered.items() if address not in memory or memory[address].nbytes != size]:
        MACHINE.memory.free(address)
        del registered[address]
    for address in memory.keys() - registered.keys():
        registered[address] = memory[address].nbytes
        MACHINE.memory.register(address, registered[address])


importlib.import_module("test.mockgpu.helpers").ptx_run = ptx_run  # type: ignore[attr-defined]
