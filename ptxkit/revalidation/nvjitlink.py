"""nvJitLink, the linker library of the CUDA toolkit, through ctypes. It needs neither driver nor GPU, and contains ptxas."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ptxkit.revalidation import log, wheels
from ptxkit.revalidation.validator import Answer, CompilerBug, Request, Unavailable, end_of_text

_PTX = 2
_UNKNOWN_ARCHITECTURE = (16, 17)
_INTERNAL = 6
_STATUS = {
    3: "NVJITLINK_ERROR_INVALID_INPUT",
    4: "NVJITLINK_ERROR_PTX_COMPILE",
    6: "NVJITLINK_ERROR_INTERNAL",
    9: "NVJITLINK_ERROR_FINALIZE",
    10: "NVJITLINK_ERROR_NULL_INPUT",
    12: "NVJITLINK_ERROR_INCORRECT_INPUT_TYPE",
}


class NvJitLink:
    """The nvJitLink of the wheel nvidia-nvjitlink, otherwise of CUDA_HOME or the system. Raises Unavailable if there is none."""

    def __init__(self) -> None:
        self._library = _load()
        major, minor = ctypes.c_uint(), ctypes.c_uint()
        self._library.nvJitLinkVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def compile(self, request: Request) -> Answer:
        """Compiles and links a module for the first architecture that it supports. Raises Unavailable if it supports none.

        The result code is not sufficient: since 12.9 at least, a failed link after a module of an unknown `.version` (in one process)
        returns success with the error in the log. So the log is checked, too.
        """
        for architecture in request.architectures:
            handle = ctypes.c_void_p()
            options = [f"-arch={architecture}".encode(), b"-verbose", b"-no-cache"]
            options += [] if request.optimized else [b"-O0"]
            status = self._library.nvJitLinkCreate(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options))
            if status in _UNKNOWN_ARCHITECTURE:
                continue
            if status:
                raise Unavailable(f"nvJitLink {self.version} cannot be set up: {_STATUS.get(status, f'status {status}')}")
            try:
                answer = self._compile(handle, request.source, architecture)
            finally:
                self._library.nvJitLinkDestroy(ctypes.byref(handle))
            if not log.lacks_architecture(answer.log):
                return answer
        raise Unavailable(f"nvJitLink {self.version} makes no code for {request.architectures[0]}")

    def _compile(self, handle: ctypes.c_void_p, source: bytes, architecture: str) -> Answer:
        cut = end_of_text(source)
        if cut is not None:
            return Answer(False, cut, self.version, architecture)
        library = self._library
        status = library.nvJitLinkAddData(handle, _PTX, source, ctypes.c_size_t(len(source)), b"module.ptx")
        status = status or library.nvJitLinkComplete(handle)
        text = self._log(handle, "Error") + self._log(handle, "Info")
        if status == _INTERNAL and not log.messages(text):
            raise CompilerBug("it reports an internal error", self.version, text)
        cubin = self._cubin(handle) if status == 0 else None
        return Answer(status == 0, text, self.version, architecture, _STATUS.get(status, f"status {status}"), log.resources(text), cubin)

    def _log(self, handle: ctypes.c_void_p, kind: str) -> str:
        size = ctypes.c_size_t()
        if getattr(self._library, f"nvJitLinkGet{kind}LogSize")(handle, ctypes.byref(size)) or size.value <= 1:
            return ""
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self._library, f"nvJitLinkGet{kind}Log")(handle, buffer)
        return buffer.value.decode(errors="replace").rstrip("\n") + "\n"

    def _cubin(self, handle: ctypes.c_void_p) -> bytes | None:
        size = ctypes.c_size_t()
        if self._library.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size)):
            return None
        buffer = ctypes.create_string_buffer(size.value)
        return None if self._library.nvJitLinkGetLinkedCubin(handle, buffer) else buffer.raw


def _load() -> Any:
    reasons = []
    for name in _libraries():
        try:
            library = ctypes.CDLL(name)
            library.nvJitLinkVersion, library.nvJitLinkCreate  # noqa: B018 - raises AttributeError if it is something else
        except (OSError, AttributeError) as error:
            reasons.append(str(error))
            continue
        return library
    raise Unavailable(f"no nvJitLink ({reasons[0]})")


def _libraries() -> Iterator[str]:
    if os.name == "nt":
        patterns, folder, system = ("cu[0-9]*/bin/x86_64/nvJitLink*.dll", "nvjitlink/bin/nvJitLink*.dll"), "bin", ["nvJitLink_130_0.dll"]
    else:
        patterns, folder, system = (
            ("cu[0-9]*/lib/libnvJitLink.so*", "nvjitlink/lib/libnvJitLink.so*"),
            "lib64",
            ["libnvJitLink.so.13", "libnvJitLink.so.12"],
        )
    yield from map(str, wheels.find(*patterns))
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield from map(str, sorted(Path(home, folder).glob(patterns[0].rpartition("/")[2])))
    yield from system
