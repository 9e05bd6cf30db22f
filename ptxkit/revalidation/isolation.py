"""Asks a validator in a child process, so that a compiler that crashes or hangs affects nothing else."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from ptxkit.revalidation import process
from ptxkit.revalidation.validator import Answer, CompilerBug, Request, Unavailable
from ptxkit.revalidation.verdict import Resources


def ask(name: str, request: Request, timeout: float) -> Answer:
    """The answer of a validator to a request.

    Raises Unavailable if it is missing or cannot be loaded, CompilerBug if it dies or exceeds `timeout` while processing the module.
    """
    if not sys.executable:
        raise Unavailable("this Python does not know its program, so it can start no child process")
    done = process.run(
        [sys.executable, "-P", "-m", "ptxkit.revalidation.worker"], _message(name, request, timeout), timeout, _environment()
    )
    ready, _, rest = done.output.partition(b"\n")
    if not ready:
        if done.code is None:
            raise Unavailable(f"it did not load within {timeout:g} s")
        raise Unavailable(f"it did not load: {done.crash or f'exit code {done.code}'}{process.tail(done.errors)}")
    first = json.loads(ready)
    if "unavailable" in first:
        raise Unavailable(first["unavailable"])
    version = first["ready"]
    answer, end, cubin = rest.partition(b"\n")
    if not end:
        if done.code is None:
            raise CompilerBug("no answer", version, done.errors)
        raise CompilerBug(done.crash or f"it ended without an answer, with exit code {done.code}", version, done.errors)
    fields = json.loads(answer)
    if "unavailable" in fields:
        raise Unavailable(fields["unavailable"])
    if "bug" in fields:
        raise CompilerBug(fields["bug"], version, fields["log"])
    fields["resources"] = tuple([Resources(**one) for one in fields["resources"]])
    return Answer(**fields, cubin=cubin or None)


def _message(name: str, request: Request, timeout: float) -> bytes:
    header = {
        "validator": name,
        "timeout": timeout,
        "architectures": request.architectures,
        "target": request.target,
        "named": request.named,
        "kernels": request.kernels,
        "relocatable": request.relocatable,
        "optimized": request.optimized,
    }
    return json.dumps(header).encode() + b"\n" + request.source


def _environment() -> dict[str, str]:
    """The environment of the child: the same modules, and a driver that compiles eagerly and without disk cache."""
    path = os.pathsep.join([str(Path(entry).resolve()) for entry in sys.path])
    return {**os.environ, "PYTHONPATH": path, "CUDA_CACHE_DISABLE": "1", "CUDA_MODULE_LOADING": "EAGER"}
