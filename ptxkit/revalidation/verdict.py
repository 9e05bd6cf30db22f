"""What comes of asking a compiler."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.syntax import Path


class Outcome(enum.StrEnum):
    """The outcome of a validation. A module is *valid* only if a compiler has accepted all of it."""

    VALID = "valid"
    INVALID = "invalid"
    COMPILER_BUG = "compiler bug"
    """The compiler crashed, hung, or says itself that it failed."""
    UNAVAILABLE = "unavailable"
    """Nothing could judge the module: there is no validator, or none that knows its target or PTX version."""


@attrs.frozen
class Resources:
    """The registers and memory of a kernel, in bytes per thread (stack, spills) or per block (shared); None if the validator does not say.

    nvJitLink compiles as for a program of many parts, so its figures are those of `ptxas -c`: a kernel that calls functions often takes
    more registers than when ptxas or the driver compile it whole.
    """

    kernel: str
    registers: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    shared: int | None = None
    """Declared in the module; what a launch adds is not in it."""
    constant: int | None = None
    """ptxas (where it says) and nvJitLink count the bank of the kernel's parameters, the driver does not."""
    barriers: int | None = None


@attrs.frozen
class Skipped:
    """A validator that was not asked in the end, and why."""

    validator: str
    reason: str


@attrs.frozen
class Verdict:
    """What a validator says about a module."""

    outcome: Outcome
    validator: str | None = None
    """`"driver"`, `"nvjitlink"` or `"ptxas"`; None if there was none."""
    version: str | None = None
    """That of the validator."""
    target: str | None = None
    """The architecture that code was made for."""
    reason: str = ""
    """Why it is a compiler bug, or unavailable."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The compiler's messages at our nodes, in the order of the file."""
    paths: tuple[Path, ...] = ()
    """For each diagnostic the node it is about; `()` where the compiler does not say."""
    resources: tuple[Resources, ...] = ()
    """Per kernel, of a valid module."""
    skipped: tuple[Skipped, ...] = ()
    """The validators that were tried before."""
    log: str = attrs.field(default="", repr=False)
    """All that the compiler wrote."""
    cubin: bytes | None = attrs.field(default=None, repr=False)
    """The machine code, if the validator returns it (the driver does not)."""

    @property
    def ok(self) -> bool:
        """Whether a compiler has taken the module."""
        return self.outcome is Outcome.VALID

    def kernel(self, name: str) -> Resources:
        """What a kernel takes. Raises KeyError."""
        for resources in self.resources:
            if resources.kernel == name:
                return resources
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        """The verdict as in the JSON output of `ptxkit validate`, version 1."""
        return {
            "verdict": self.outcome.value,
            "validator": self.validator,
            "validator_version": self.version,
            "target": self.target,
            "reason": self.reason,
            "diagnostics": [diagnostic.as_json() for diagnostic in self.diagnostics],
            "resources": [attrs.asdict(resources) for resources in self.resources],
            "skipped": [attrs.asdict(skipped) for skipped in self.skipped],
            "log": self.log,
        }
