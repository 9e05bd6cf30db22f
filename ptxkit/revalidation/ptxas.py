"""ptxas, the assembler of the CUDA toolkit."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ptxkit.memo import expression
from ptxkit.revalidation import log, process, wheels
from ptxkit.revalidation.validator import Answer, CompilerBug, Request, Unavailable

_VERSION = expression(r"release [\d.]+, V(\d[\d.]*)")


class Ptxas:
    """The first ptxas in: the PATH, CUDA_HOME or CUDA_PATH, the wheel nvidia-cuda-nvcc. Raises Unavailable if none runs."""

    def __init__(self, timeout: float) -> None:
        self.deadline = time.monotonic() + timeout
        reasons = []
        for program in _programs():
            try:
                done = process.run([program, "--version"], b"", timeout)
            except OSError as error:
                reasons.append(f"{program}: {error.strerror or error}")
                continue
            version = _VERSION.search(done.output.decode(errors="replace"))
            if version is not None:
                self.program, self.version = program, version[1]
                return
            reasons.append(f"{program} does not say its version")
        raise Unavailable("; ".join(reasons) or "no ptxas on the PATH, in CUDA_HOME, or from a wheel")

    def compile(self, request: Request) -> Answer:
        """Assembles a module for the first architecture that this ptxas supports. Raises Unavailable if it supports none, CompilerBug
        for a crash."""
        for architecture in request.architectures:
            with tempfile.TemporaryDirectory(prefix="ptxkit-", ignore_cleanup_errors=True) as folder:
                answer = self._compile(request, architecture, Path(folder))
            if not log.lacks_architecture(answer.log):
                return answer
        raise Unavailable(f"ptxas {self.version} makes no code for {request.architectures[0]}")

    def _compile(self, request: Request, architecture: str, folder: Path) -> Answer:
        source, cubin = folder / "module.ptx", folder / "module.cubin"
        source.write_bytes(request.source)
        flags = ["-c"] if request.relocatable else []
        flags += [] if request.optimized else ["-O0"]
        command = [self.program, "-v", f"-arch={architecture}", *flags, str(source), "-o", str(cubin)]
        done = process.run(command, b"", max(self.deadline - time.monotonic(), 0.0))
        text = (done.output.decode(errors="replace") + done.errors).replace(f"{folder}{os.sep}", "")
        if done.code is None:
            raise CompilerBug("no answer", self.version, text)
        if done.crash is not None:
            raise CompilerBug(done.crash, self.version, text)
        if done.code:
            if not log.messages(text):
                raise Unavailable(f"{self.program} ends with exit code {done.code} and says nothing of the module{process.tail(text)}")
            return Answer(False, text, self.version, architecture)
        try:
            return Answer(True, text, self.version, architecture, "", log.resources(text), cubin.read_bytes())
        except FileNotFoundError:
            raise Unavailable(f"{self.program} writes no machine code") from None


def _programs() -> Iterator[str]:
    found = shutil.which("ptxas")
    if found is not None:
        yield found
    name = "ptxas.exe" if os.name == "nt" else "ptxas"
    candidates = [Path(home, "bin", name) for variable in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(variable))]
    candidates += wheels.find(f"cu[0-9]*/bin/{name}", f"cuda_nvcc/bin/{name}")
    yield from [str(candidate) for candidate in candidates if os.access(candidate, os.X_OK)]
