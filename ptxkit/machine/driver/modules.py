"""Modules and libraries from PTX, with their kernels, attributes and variables; linking."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from ptxkit.frozen import define
from ptxkit.machine.driver import images
from ptxkit.machine.driver.devices import REGISTERS, SHARED_OF_CTA, attribute
from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.state import STATE
from ptxkit.machine.launching import declared
from ptxkit.machine.loading import Code, size_of
from ptxkit.names import Kind
from ptxkit.syntax import Version


@define(eq=False)
class Loaded:
    """A module or library: code that was loaded together, and the handles of its kernels by name."""

    codes: list[Code]
    kernels: dict[str, int] = attrs.Factory(dict)

    def kernel(self, name: str) -> int | None:
        """The handle of a kernel; None if there is none of that name."""
        found = self.kernels.get(name)
        if found is None:
            for code in self.codes:
                if name in code.kernels:
                    found = self.kernels[name] = STATE.handle(Function(self, code, name))
        return found

    @property
    def names(self) -> list[str]:
        return [name for code in self.codes for name in code.kernels]


@attrs.define(eq=False)
class Function:
    """A kernel. `settings` are the attributes that were set, by number."""

    of: Loaded
    code: Code
    name: str
    settings: dict[int, int] = attrs.Factory(dict)

    @functools.cached_property
    def parameters(self) -> list[tuple[int, int]]:
        """The offset of each parameter, and its bytes."""
        return [(at, size) for _, at, size, _ in self._program.layout()]

    @functools.cached_property
    def text(self) -> ctypes.c_char_p:
        return ctypes.c_char_p(self.name.encode())

    @property
    def _program(self) -> Any:
        return self.code.program(self.name, False, False)

    @functools.cached_property
    def shared(self) -> int:
        """Bytes of shared memory of its variables."""
        return int(self._program.shared_static)

    @functools.cached_property
    def registers(self) -> int:
        """An estimate: the maximum live at the start of a block, plus a few for temporaries."""
        body = self._program.entry
        sizes = [max(1, dtype.itemsize // 4) if dtype is not None else 1 for dtype in body.dtypes]
        live = max((sum(sizes[i] for i in block.registers if i < len(sizes)) for block in body.blocks), default=0)
        most = (self.directives.get(".maxnreg") or [255])[0]
        return min(most, max(16, -(-(live + 8) // 8) * 8))

    @functools.cached_property
    def directives(self) -> dict[str, list[int]]:
        return declared(self.code, self.name)

    @property
    def threads(self) -> int:
        """The maximum number of threads of a CTA."""
        given = self.directives.get(".maxntid") or self.directives.get(".reqntid")
        return min(1024, math.prod(given) if given else 1024, REGISTERS // self.registers)

    def attribute(self, kind: int) -> int:
        """An attribute by its number. Raises `Failure` if there is none."""
        ids = numbers("CUfunction_attribute")
        name = next((name for name, number in ids.items() if number == kind), None)
        if name is None:
            raise Failure("INVALID_VALUE", f"no attribute of functions has the number {kind}")
        if kind in self.settings:
            return self.settings[kind]
        version = next((c.children[0].text for c in self.code.module.children if isinstance(c, Version)), "0.0")
        found: dict[str, Callable[[], int]] = {
            "MAX_THREADS_PER_BLOCK": lambda: self.threads,
            "SHARED_SIZE_BYTES": lambda: self.shared,
            "CONST_SIZE_BYTES": lambda: 0,
            "LOCAL_SIZE_BYTES": lambda: int(self._program.stack_bytes),
            "NUM_REGS": lambda: self.registers,
            "PTX_VERSION": lambda: round(float(version) * 10),
            "BINARY_VERSION": lambda: STATE.architecture,
            "MAX_DYNAMIC_SHARED_SIZE_BYTES": lambda: SHARED_OF_CTA - self.shared,
            "PREFERRED_SHARED_MEMORY_CARVEOUT": lambda: -1,
            "CLUSTER_SIZE_MUST_BE_SET": lambda: int(".explicitcluster" in self.directives),
        }
        clusters = [*self.directives.get(".reqnctapercluster", ()), 1, 1][:3] if ".reqnctapercluster" in self.directives else [0] * 3
        if name.startswith("REQUIRED_CLUSTER_"):
            return clusters[("WIDTH", "HEIGHT", "DEPTH").index(name.removeprefix("REQUIRED_CLUSTER_"))]
        return found[name]() if name in found else 0

    def set(self, kind: int, value: int) -> None:
        """Sets an attribute. Raises `Failure` for invalid values."""
        ids = numbers("CUfunction_attribute")
        if kind == ids["MAX_DYNAMIC_SHARED_SIZE_BYTES"]:
            most = attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") - self.shared
            if not 0 <= value <= most:
                raise Failure("INVALID_VALUE", f"{value} bytes of dynamic shared memory for `{self.name}`, {most} is the most")
        elif kind not in [number for name, number in ids.items() if "CLUSTER" in name or "CARVEOUT" in name]:
            raise Failure("INVALID_VALUE", "an attribute that cannot be set")
        self.settings[kind] = value


# --- loading


def load(texts: list[str]) -> Loaded:
    """Loads texts together. Raises `Failure` with the reason if a driver's compiler would reject them."""
    codes: list[Code] = []
    for source in texts:
        module = images.parsed(source)
        if reason := images.refused(module):
            raise Failure("INVALID_PTX", reason)
        if not source.strip():
            raise Failure("INVALID_IMAGE", "an empty text")
        try:
            codes.append(STATE.machine.load(module))
        except ValueError as error:
            raise Failure("INVALID_PTX", f"ptxas error: {error}") from None
    for code in codes:
        # code loaded separately does not share anything with these
        STATE.machine.codes.remove(code)
        code.beside = codes
    return Loaded(codes)


def _load(address: int, options: int, values: int, count: int) -> int:
    STATE.current()
    try:
        return STATE.handle(load(images.at(address)))
    except Failure as failure:
        _write_log(options, values, count, failure.reason)
        raise


def _write_log(options: int, values: int, count: int, text: str) -> None:
    """Writes a message to the error log given by the options."""
    ids = numbers("CUjit_option")
    given = {ctypes.c_uint32.from_address(options + 4 * i).value: i for i in range(count)}
    buffer, size = given.get(ids["ERROR_LOG_BUFFER"]), given.get(ids["ERROR_LOG_BUFFER_SIZE_BYTES"])
    if buffer is None or size is None:
        return
    place = ctypes.c_uint64.from_address(values + 8 * buffer).value
    most = ctypes.c_uint32.from_address(values + 8 * size).value
    data = text.encode()[: max(0, most - 1)]
    if place and most:
        ctypes.memmove(place, data + b"\0", len(data) + 1)
        ctypes.c_uint32.from_address(values + 8 * size).value = len(data)


def _read(path: bytes) -> list[str]:
    try:
        return images.of(Path(path.decode()).read_bytes())
    except OSError as error:
        raise Failure("FILE_NOT_FOUND", str(error)) from None


@call("*q s", settles=True)
def cuModuleLoad(path: bytes) -> int:
    STATE.current()
    return STATE.handle(load(_read(path)))


@call("*q q", settles=True)
def cuModuleLoadData(image: int) -> int:
    return _load(image, 0, 0, 0)


@call("*q q u q q", settles=True)
def cuModuleLoadDataEx(image: int, count: int, options: int, values: int) -> int:
    return _load(image, options, values, count)


@call("*q q", settles=True)
def cuModuleLoadFatBinary(image: int) -> int:
    return _load(image, 0, 0, 0)


@call("*q q q q u q q u", settles=True)
def cuLibraryLoadData(
    image: int, options: int, values: int, count: int, library_options: int, library_values: int, library_count: int
) -> int:
    STATE.ready()
    try:
        return STATE.handle(load(images.at(image)))
    except Failure as failure:
        _write_log(options, values, count, failure.reason)
        raise


@call("*q s q q u q q u", settles=True)
def cuLibraryLoadFromFile(
    path: bytes, options: int, values: int, count: int, library_options: int, library_values: int, library_count: int
) -> int:
    return STATE.handle(load(_read(path)))


def _unload(module: int) -> None:
    for kernel in STATE.drop(module, Loaded).kernels.values():
        STATE.drop(kernel, Function)


@call("q")
def cuModuleUnload(module: int) -> None:
    _unload(module)


@call("q")
def cuLibraryUnload(library: int) -> None:
    _unload(library)


@call("*i")
def cuModuleGetLoadingMode() -> int:
    return 1


# --- kernels


def _kernel(module: int, name: bytes) -> int:
    found = STATE.of(module, Loaded).kernel(name.decode(errors="replace"))
    if found is None:
        raise Failure("NOT_FOUND", f"no kernel is called {name.decode(errors='replace')!r}")
    return found


@call("*q q s")
def cuModuleGetFunction(module: int, name: bytes) -> int:
    return _kernel(module, name)


@call("*q q s")
def cuLibraryGetKernel(library: int, name: bytes) -> int:
    return _kernel(library, name)


@call("*q q")
def cuLibraryGetModule(library: int) -> int:
    STATE.of(library, Loaded)
    return library


@call("*q q")
def cuKernelGetFunction(kernel: int) -> int:
    STATE.of(kernel, Function)
    return kernel


@call("*q q")
def cuKernelGetLibrary(kernel: int) -> int:
    return cuFuncGetModule(kernel)  # type: ignore[no-any-return]


@call("*q q")
def cuFuncGetModule(function: int) -> int:
    wanted = STATE.of(function, Function).of
    return next(handle for handle in STATE.handles() if STATE.find(handle) is wanted)


@call("*u q")
def cuModuleGetFunctionCount(module: int) -> int:
    return len(STATE.of(module, Loaded).names)


@call("*u q")
def cuLibraryGetKernelCount(library: int) -> int:
    return len(STATE.of(library, Loaded).names)


def _enumerate(place: int, count: int, module: int) -> None:
    one = STATE.of(module, Loaded)
    for i, name in enumerate(one.names[:count]):
        ctypes.c_uint64.from_address(place + 8 * i).value = one.kernel(name) or 0


@call("q u q")
def cuModuleEnumerateFunctions(place: int, count: int, module: int) -> None:
    _enumerate(place, count, module)


@call("q u q")
def cuLibraryEnumerateKernels(place: int, count: int, library: int) -> None:
    _enumerate(place, count, library)


@call("*q q")
def cuKernelGetName(kernel: int) -> int:
    return ctypes.cast(STATE.of(kernel, Function).text, ctypes.c_void_p).value or 0


@call("*q q")
def cuFuncGetName(function: int) -> int:
    return ctypes.cast(STATE.of(function, Function).text, ctypes.c_void_p).value or 0


@call("*i i q")
def cuFuncGetAttribute(kind: int, function: int) -> int:
    return STATE.of(function, Function).attribute(kind)


@call("*i i q i")
def cuKernelGetAttribute(kind: int, kernel: int, device: int) -> int:
    return STATE.of(kernel, Function).attribute(kind)


@call("q i i")
def cuFuncSetAttribute(function: int, kind: int, value: int) -> None:
    STATE.of(function, Function).set(kind, value)


@call("i i q i")
def cuKernelSetAttribute(kind: int, value: int, kernel: int, device: int) -> None:
    STATE.of(kernel, Function).set(kind, value)


def _parameter(function: int, i: int) -> tuple[int, int]:
    parameters = STATE.of(function, Function).parameters
    if i >= len(parameters):
        raise Failure("INVALID_VALUE")
    return parameters[i]


@call("q q *q *q")
def cuFuncGetParamInfo(function: int, i: int) -> tuple[int, int]:
    return _parameter(function, i)


@call("q q *q *q")
def cuKernelGetParamInfo(kernel: int, i: int) -> tuple[int, int]:
    STATE.current()
    return _parameter(kernel, i)


@call("q *q")
def cuFuncGetParamCount(function: int) -> int:
    return len(STATE.of(function, Function).parameters)


@call("q *q")
def cuKernelGetParamCount(kernel: int) -> int:
    return len(STATE.of(kernel, Function).parameters)


@call("q i")
def cuFuncSetCacheConfig(function: int, config: int) -> None:
    STATE.of(function, Function)


@call("q i i")
def cuKernelSetCacheConfig(kernel: int, config: int, device: int) -> None:
    STATE.of(kernel, Function)


@call("q i")
def cuFuncSetSharedMemConfig(function: int, config: int) -> None:
    STATE.of(function, Function)


@call("*i q")
def cuFuncIsLoaded(function: int) -> int:
    STATE.of(function, Function)
    return 1


@call("q")
def cuFuncLoad(function: int) -> None:
    STATE.of(function, Function)


# --- variables


def _variable(module: int, name: bytes) -> tuple[int, int]:
    wanted = name.decode(errors="replace")
    for code in STATE.of(module, Loaded).codes:
        symbol = code.names.root.lookup(wanted)
        if symbol is not None and symbol.kind is Kind.VARIABLE and symbol.linkage != ".extern" and symbol.space in (".global", ".const"):
            return code.address(wanted), size_of(symbol)
    raise Failure("NOT_FOUND", f"no variable is called {wanted!r}")


@call("*q *q q s", "cuModuleGetGlobal_v2")
def cuModuleGetGlobal(module: int, name: bytes) -> tuple[int, int]:
    return _variable(module, name)


@call("*q *q q s")
def cuLibraryGetGlobal(library: int, name: bytes) -> tuple[int, int]:
    return _variable(library, name)


@call("*q *q q s")
def cuLibraryGetManaged(library: int, name: bytes) -> tuple[int, int]:
    return _variable(library, name)


# --- linking


@define(eq=False)
class Link:
    """The inputs of a link, and the image once it is complete."""

    texts: list[str] = attrs.Factory(list)
    image: Any = None
    options: tuple[int, int, int] = (0, 0, 0)


@call("u q q *q", "cuLinkCreate_v2")
def cuLinkCreate(count: int, options: int, values: int) -> int:
    STATE.ready()
    return STATE.handle(Link(options=(options, values, count)))


def _add(state: int, texts: list[str]) -> None:
    link = STATE.of(state, Link)
    for source in texts:
        errors = [d for d in images.parsed(source).diagnostics if d.severity == "error"]
        if errors:
            reason = f"ptxas error: line {errors[0].span.line}: {errors[0].message}"
            options, values, count = link.options
            _write_log(options, values, count, reason)
            raise Failure("INVALID_PTX", reason)
    link.texts += texts


@call("q i q q s u q q", "cuLinkAddData_v2")
def cuLinkAddData(state: int, kind: int, data: int, size: int, name: bytes, count: int, options: int, values: int) -> None:
    _add(state, images.of(ctypes.string_at(data, size)))


@call("q i s u q q", "cuLinkAddFile_v2")
def cuLinkAddFile(state: int, kind: int, path: bytes, count: int, options: int, values: int) -> None:
    _add(state, _read(path))


@call("q *q *q")
def cuLinkComplete(state: int) -> tuple[int, int]:
    link = STATE.of(state, Link)
    load(link.texts)
    data = images.linked(link.texts)
    link.image = ctypes.create_string_buffer(data, len(data))
    return ctypes.addressof(link.image), len(data)


@call("q")
def cuLinkDestroy(state: int) -> None:
    STATE.drop(state, Link)
