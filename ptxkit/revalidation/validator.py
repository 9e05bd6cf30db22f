"""The interface between the chain and the validators."""

from __future__ import annotations

from typing import Protocol

import attrs

from ptxkit.frozen import frozen
from ptxkit.revalidation.verdict import Resources


class Unavailable(Exception):
    """A validator that is missing or cannot judge this module; the message says what is missing."""


class CompilerBug(Exception):
    """A compiler that crashed or hung on the module; the message says how. `log` is its output before that."""

    def __init__(self, reason: str, version: str | None = None, log: str = "") -> None:
        super().__init__(reason)
        self.version = version
        self.log = log


@frozen
class Request:
    """A module to compile."""

    source: bytes
    architectures: tuple[str, ...]
    """The first one that the compiler supports is used."""
    target: str | None = None
    """The architecture that the caller requests."""
    named: str | None = None
    """The architecture that the module names."""
    kernels: tuple[str, ...] = ()
    relocatable: bool = False
    optimized: bool = True


@frozen
class Answer:
    """A compiler's result; `accepted` is its own claim, which the log may contradict."""

    accepted: bool
    log: str
    version: str
    architecture: str
    status: str = ""
    """The name of the error code, for an empty log."""
    resources: tuple[Resources, ...] = ()
    cubin: bytes | None = attrs.field(default=None, repr=False)


class Validator(Protocol):
    """An available compiler. The constructor raises Unavailable if it is not."""

    version: str

    def compile(self, request: Request) -> Answer:
        """Compiles a module. Raises Unavailable if it cannot judge it."""


def end_of_text(source: bytes) -> str | None:
    """The message of ptxas for a text with a NUL; the libraries would treat the text before it as complete."""
    at = source.find(b"\0")
    return None if at < 0 else f"ptxas fatal   : Unexpected EOF encountered on line {source.count(10, 0, at) + 1}\n"
