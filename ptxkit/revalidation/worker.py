"""The child process that loads a compiler: `python -m ptxkit.revalidation.worker`, driven by `ptxkit.revalidation.isolation`.

Input: a line of JSON, then the module. Output: a line that says whether the compiler is available, a line with its answer, then the machine
code. So the parent knows whether a compiler that crashes was processing the module.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any, BinaryIO

import attrs

from ptxkit.revalidation.validator import CompilerBug, Request, Unavailable, Validator


def main() -> None:
    """Answers one request."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps the output of libraries out of the answer
    header = json.loads(sys.stdin.buffer.readline())
    if hasattr(signal, "alarm"):
        signal.alarm(int(header["timeout"]) + 10)  # in case the parent is killed and cannot end this process
    request = Request(
        sys.stdin.buffer.read(),
        tuple(header["architectures"]),
        header["target"],
        header["named"],
        tuple(header["kernels"]),
        header["relocatable"],
        header["optimized"],
    )
    try:
        validator = load(header["validator"])
        _say(out, {"ready": validator.version})
        answer = validator.compile(request)
    except Unavailable as why:
        _say(out, {"unavailable": str(why)})
    except CompilerBug as bug:
        _say(out, {"bug": str(bug), "log": bug.log})
    except Exception:
        _say(out, {"unavailable": f"it failed in Python:\n{traceback.format_exc()}"})
    else:
        _say(out, attrs.asdict(answer, filter=lambda attribute, value: attribute.name != "cubin"))
        out.write(answer.cubin or b"")
        out.flush()


def load(name: str) -> Validator:
    """The driver or nvJitLink, loaded into this process. Raises Unavailable if it is missing."""
    if name == "driver":
        from ptxkit.revalidation.driver import Driver

        return Driver()
    from ptxkit.revalidation.nvjitlink import NvJitLink

    return NvJitLink()


def _say(out: BinaryIO, what: dict[str, Any]) -> None:
    out.write(json.dumps(what).encode() + b"\n")
    out.flush()


if __name__ == "__main__":
    main()
