"""The CUDA driver, through cuda-python's `cuda.bindings`: the compiler that loads the module when the program runs."""

from __future__ import annotations

import importlib
from typing import Any

import attrs

from ptxkit.isa.targets import runs, split_target, targets
from ptxkit.revalidation import log
from ptxkit.revalidation.validator import Answer, Request, Unavailable, end_of_text
from ptxkit.revalidation.verdict import Resources

_LOG_BYTES = 1 << 20
_REFUSED = frozenset(("CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_INVALID_SOURCE"))
"""Errors that concern the module; all others concern the driver or the machine, unless the log says otherwise."""


class Driver:
    """The driver and its first device. Raises Unavailable without cuda-bindings, driver or device."""

    def __init__(self) -> None:
        try:
            self._cuda = importlib.import_module("cuda.bindings.driver")
        except ImportError as error:
            raise Unavailable(f"cuda-bindings is not installed ({error})") from None
        try:
            self._call("cuInit", 0)
            if not self._call("cuDeviceGetCount"):
                raise Unavailable("the CUDA driver sees no GPU")
            self._device = self._call("cuDeviceGet", 0)
            number = self._call("cuDriverGetVersion")
            self.version = f"{number // 1000}.{number % 1000 // 10}"
            kind = self._cuda.CUdevice_attribute
            major = self._call("cuDeviceGetAttribute", kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self._device)
            minor = self._call("cuDeviceGetAttribute", kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self._device)
        except RuntimeError as error:  # also what the bindings raise where there is no libcuda
            raise Unavailable(f"no CUDA driver ({error})") from None
        self.architecture = f"sm_{major}{minor}"

    def compile(self, request: Request) -> Answer:
        """Loads a module and its kernels, and unloads it. Raises Unavailable if the device does not match the module's architecture."""
        if request.target is not None and split_target(request.target)[0] != split_target(self.architecture)[0]:
            raise Unavailable(f"the GPU is of {self.architecture}, not {request.target}")
        known = targets().get(request.named or "")
        if known is not None and not runs(f"{self.architecture}a", known.renamed or known.name):
            raise Unavailable(f"the GPU is of {self.architecture}, on which code for {known.name} does not run")
        cut = end_of_text(request.source)
        if cut is not None:
            return Answer(False, cut, self.version, self.architecture)
        try:
            context = self._call("cuDevicePrimaryCtxRetain", self._device)
        except RuntimeError as error:
            raise Unavailable(f"the CUDA driver makes no context ({error})") from None
        try:
            self._call("cuCtxPushCurrent", context)
            try:
                return self._load(request)
            finally:
                self._call("cuCtxPopCurrent")
        finally:
            self._call("cuDevicePrimaryCtxRelease", self._device)

    def _load(self, request: Request) -> Answer:
        option = self._cuda.CUjit_option
        errors, info = bytearray(_LOG_BYTES), bytearray(_LOG_BYTES)
        options = {
            option.CU_JIT_ERROR_LOG_BUFFER: errors,
            option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: len(errors),
            option.CU_JIT_INFO_LOG_BUFFER: info,
            option.CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: len(info),
            option.CU_JIT_LOG_VERBOSE: 1,
        }
        if not request.optimized:
            options[option.CU_JIT_OPTIMIZATION_LEVEL] = 0
        code, module = self._cuda.cuModuleLoadDataEx(request.source + b"\0", len(options), list(options), list(options.values()))
        text = _text(errors) + _text(info)
        status = self._name(code)
        if code:
            if status not in _REFUSED and not log.messages(text):
                raise Unavailable(f"the CUDA driver did not load it: {status}")
            return Answer(False, text, self.version, self.architecture, status)
        try:
            found = self._resources(module, request.kernels, text)
        finally:
            self._cuda.cuModuleUnload(module)
        return Answer(True, text, self.version, self.architecture, status, found)

    def _resources(self, module: Any, kernels: tuple[str, ...], text: str) -> tuple[Resources, ...]:
        """The driver's figures, supplemented from the log."""
        logged = {one.kernel: one for one in log.resources(text)}
        found = []
        for kernel in kernels:
            code, function = self._cuda.cuModuleGetFunction(module, kernel.encode())
            if code:
                continue
            found.append(
                attrs.evolve(
                    logged.get(kernel, Resources(kernel)),
                    registers=self._attribute(function, "NUM_REGS"),
                    stack=self._attribute(function, "LOCAL_SIZE_BYTES"),
                    shared=self._attribute(function, "SHARED_SIZE_BYTES"),
                    constant=self._attribute(function, "CONST_SIZE_BYTES"),
                )
            )
        return tuple(found)

    def _attribute(self, function: Any, name: str) -> int:
        which = getattr(self._cuda.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(self._call("cuFuncGetAttribute", which, function))

    def _call(self, name: str, *arguments: Any) -> Any:
        """Calls the driver. Raises RuntimeError with the error's name."""
        code, *values = getattr(self._cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {self._name(code)}")
        return values[0] if values else None

    def _name(self, code: Any) -> str:
        return str(getattr(code, "name", code))


def _text(buffer: bytearray) -> str:
    text = bytes(buffer).split(b"\0", 1)[0].decode(errors="replace")
    return text and text.rstrip("\n") + "\n"
