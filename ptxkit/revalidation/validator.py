"""What the chain and the validators say to each other."""

from __future__ import annotations

from typing import Protocol

import attrs

from ptxkit.revalidation.verdict import Resources


class Unavailable(Exception):
    """A validator that is not there, or cannot judge this module; says what is missing."""


class CompilerBug(Exception):
    """A compiler that crashed or hung on the module; says how. `log` is what it wrote before."""

    def __init__(self, reason: str, version: str | None = None, log: str = "") -> None:
        super().__init__(reason)
        self.version = version
        self.log = log


@attrs.frozen
class Request:
    """A module to compile."""

    source: bytes
    architectures: tuple[str, ...]
    """The first that the compiler knows is taken."""
    target: str | None = None
    """The architecture that the caller insists on."""
    named: str | None = None
    """The one that the module names."""
    kernels: tuple[str, ...] = ()
    relocatable: bool = False
    optimized: bool = True


@attrs.frozen
class Answer:
    """What a compiler returns; that it `accepted` is what it claims, the log may say otherwise."""

    accepted: bool
    log: str
    version: str
    architecture: str
    status: str = ""
    """The name of the error code, for when the log is silent."""
    resources: tuple[Resources, ...] = ()
    cubin: bytes | None = attrs.field(default=None, repr=False)


class Validator(Protocol):
    """A compiler that is there. Making one raises Unavailable if it is not."""

    version: str

    def compile(self, request: Request) -> Answer:
        """Compiles a module. Raises Unavailable if it cannot judge it."""


def end_of_text(source: bytes) -> str | None:
    """What ptxas says of a text with a NUL in it; the libraries would take what stands before that for the whole."""
    at = source.find(b"\0")
    return None if at < 0 else f"ptxas fatal   : Unexpected EOF encountered on line {source.count(10, 0, at) + 1}\n"
