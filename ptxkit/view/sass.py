"""The machine code of a module, from ptxas and nvdisasm if both are available."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from ptxkit import files
from ptxkit.frozen import frozen
from ptxkit.memo import expression
from ptxkit.revalidation import process, wheels
from ptxkit.revalidation.ptxas import Ptxas
from ptxkit.revalidation.validator import Unavailable
from ptxkit.syntax import Module

_LINE = expression(r'\s*//## File "([^"]*)", line (\d+)')
_FUNCTION = expression(r"\.text\.([\w$.]+):$")
_SECTION = expression(r"\s*\.section\s|//-{9,}")
_INSTRUCTION = expression(r"\s*/\*[0-9a-f]{4,}\*/")
_OF_PTX = ".nv_debug_ptx_txt"


class NoCode(Exception):
    """Why there is no machine code to show."""


@frozen
class Sass:
    """Machine code, line by line."""

    lines: tuple[str, ...]
    of_line: tuple[int, ...]
    """By line, the line of the PTX, from 1, that it comes from; 0 if unknown."""
    functions: tuple[tuple[str, int], ...]
    """The functions, each with its first line, from 0."""


def disassembled(module: Module, target: str, timeout: float) -> Sass:
    """The machine code of a module for a target. `timeout` is in seconds. Raises NoCode."""
    end = time.monotonic() + timeout
    try:
        assembler = Ptxas(timeout).program
    except Unavailable as why:
        raise NoCode(f"{why} (pip install nvidia-cuda-nvcc)") from None
    disassembler = _nvdisasm()
    with tempfile.TemporaryDirectory(prefix="ptxkit-", ignore_cleanup_errors=True) as folder:
        source, cubin = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(files.encode(module.text))
        _run([assembler, f"-arch={target}", "-lineinfo", str(source), "-o", str(cubin)], "ptxas", end)
        return parsed(_run([disassembler, "-c", "-gp", str(cubin)], "nvdisasm", end))


def parsed(text: str) -> Sass:
    """Parses the output of `nvdisasm -c -gp`, without its directives."""
    lines: list[str] = []
    of_line: list[int] = []
    functions: list[tuple[str, int]] = []
    at, is_code = 0, False
    for line in text.splitlines():
        said = _LINE.match(line)
        function = _FUNCTION.match(line)
        if said is not None:
            at = int(said[2]) if said[1] == _OF_PTX else at
        elif _SECTION.match(line):
            is_code = False
        elif function is not None:
            functions.append((function[1], len(lines)))
            lines.append(f"{function[1]}:")
            of_line.append(0)
            at, is_code = 0, True
        elif is_code and line.strip():
            is_instruction = _INSTRUCTION.match(line) is not None
            lines.append(line.strip() if not is_instruction else "    " + re.sub(r"\*/\s+", "*/  ", line.strip(), count=1))
            of_line.append(at if is_instruction else 0)
    return Sass(tuple(lines), tuple(of_line), tuple(functions))


def _nvdisasm() -> str:
    found = shutil.which("nvdisasm")
    if found is not None:
        return found
    name = "nvdisasm.exe" if os.name == "nt" else "nvdisasm"
    candidates = [Path(home, "bin", name) for variable in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(variable))]
    candidates += wheels.find(f"cu[0-9]*/bin/{name}", f"cuda_nvdisasm/bin/{name}", f"cuda_nvcc/bin/{name}")
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    raise NoCode("nvdisasm was not found on the PATH or in CUDA_HOME; pip install nvidia-cuda-nvdisasm")


def _run(command: list[str], name: str, end: float) -> str:
    try:
        done = process.run(command, b"", max(end - time.monotonic(), 0.0))
    except OSError as error:
        raise NoCode(f"{name} cannot be started: {error.strerror or error}") from None
    if done.code is None:
        raise NoCode(f"{name} takes too long")
    if done.code:
        raise NoCode(f"{name} ends with exit code {done.code}{process.tail(done.errors or done.output.decode(errors='replace'))}")
    return done.output.decode(errors="replace")
