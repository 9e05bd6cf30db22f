"""NVRTC, if installed: it compiles C++ without a GPU. Requests for machine code are changed to PTX.

A wrapper library of its name forwards every call except those about machine code: `nvrtcCompileProgram` compiles for `compute_90` if the
option is `sm_90`, and `nvrtcGetCUBIN` returns the PTX, which the driver here loads as usual.
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path
from typing import Any

from ptxkit.machine.driver import library

NAMES = (
    "nvrtcAddNameExpression", "nvrtcBundleGetFileSize", "nvrtcCompileProgram", "nvrtcCreateProgram", "nvrtcDestroyProgram", "nvrtcGetCUBIN",
    "nvrtcGetCUBINSize", "nvrtcGetErrorString", "nvrtcGetLTOIR", "nvrtcGetLTOIRSize", "nvrtcGetLoweredName", "nvrtcGetNumSupportedArchs",
    "nvrtcGetOptiXIR", "nvrtcGetOptiXIRSize", "nvrtcGetPCHCreateStatus", "nvrtcGetPCHHeapSize", "nvrtcGetPCHHeapSizeRequired",
    "nvrtcGetPTX", "nvrtcGetPTXSize", "nvrtcGetProgramLog", "nvrtcGetProgramLogSize", "nvrtcGetSupportedArchs", "nvrtcSetFlowCallback",
    "nvrtcSetPCHHeapSize", "nvrtcVersion",
)  # fmt: skip
_ABSENT = 11
"""NVRTC_ERROR_INTERNAL_ERROR: for a function that the installed version lacks."""

_kept: list[Any] = []


def find() -> Path | None:
    """The library, in the packages of this Python or in the toolkit; None if not installed."""
    folders = [Path(entry) / "nvidia" for entry in sys.path if entry]
    for folder in (*folders, Path("/usr/local/cuda/lib64")):
        found = sorted(folder.glob("*/lib/libnvrtc.so.1[0-9]" if folder.name == "nvidia" else "libnvrtc.so.1[0-9]"))
        if found:
            return found[-1]
    return None


def install() -> Any:
    """Loads the wrapper library; None if NVRTC is not installed."""
    path = find()
    if path is None:
        return None
    real: list[ctypes.CDLL] = []

    def address(name: str) -> int:
        if not real:
            real.append(ctypes.CDLL(str(path)))
            _replaced(real[0])
        own = _REPLACED.get(name)
        if own is not None:
            return ctypes.cast(own, ctypes.c_void_p).value or 0
        try:
            return ctypes.cast(getattr(real[0], name), ctypes.c_void_p).value or 0
        except AttributeError:
            _kept.append(ctypes.CFUNCTYPE(ctypes.c_int)(lambda: _ABSENT))
            return ctypes.cast(_kept[-1], ctypes.c_void_p).value or 0

    try:
        return library.load(path.name, NAMES, address)
    except OSError:
        return None


_REPLACED: dict[str, Any] = {}


def _replaced(real: ctypes.CDLL) -> None:
    """Creates the functions that are not forwarded."""

    def compile_program(program: int, count: int, options: int) -> int:
        words = [ctypes.c_char_p.from_address(options + 8 * i).value or b"" for i in range(count)]
        words = [re.sub(rb"^((?:-arch|--gpu-architecture)[= ])sm_", rb"\1compute_", word) for word in words]
        words = [re.sub(rb"^sm_(?=\d+[af]?$)", b"compute_", word) for word in words]
        given = (ctypes.c_char_p * max(count, 1))(*words)
        return int(real.nvrtcCompileProgram(ctypes.c_void_p(program), count, given))

    signature = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint64)
    _REPLACED["nvrtcCompileProgram"] = signature(compile_program)
    _REPLACED["nvrtcGetCUBIN"] = real.nvrtcGetPTX
    _REPLACED["nvrtcGetCUBINSize"] = real.nvrtcGetPTXSize
