"""The result of a validation."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import attrs

from ptxkit.frozen import frozen

if TYPE_CHECKING:
    from ptxkit.diagnostics import Diagnostic
    from ptxkit.syntax import Path


class Outcome(enum.StrEnum):
    """The outcome of a validation. A module is *valid* only if a compiler has accepted all of it."""

    VALID = "valid"
    INVALID = "invalid"
    COMPILER_BUG = "compiler bug"
    """The compiler crashed, hung, or reports an internal error."""
    UNAVAILABLE = "unavailable"
    """Nothing could judge the module: there is no validator, or none that supports its target or PTX version."""


@frozen
class Resources:
    """The registers and memory of a kernel, in bytes per thread (stack, spills) or per block (shared); None if not reported.

    nvJitLink compiles for separate linking, so its figures are those of `ptxas -c`: a kernel that calls functions often uses more registers
    than when ptxas or the driver compile it as a whole.
    """

    kernel: str
    registers: int | None = None
    stack: int | None = None
    spill_stores: int | None = None
    spill_loads: int | None = None
    shared: int | None = None
    """Declared in the module, without the dynamic part of a launch."""
    constant: int | None = None
    """ptxas (if it reports it) and nvJitLink count the bank of kernel parameters, the driver does not."""
    barriers: int | None = None


@frozen
class Skipped:
    """A validator that was skipped, and why."""

    validator: str
    reason: str


@frozen
class Verdict:
    """The verdict of a validator on a module."""

    outcome: Outcome
    validator: str | None = None
    """`"driver"`, `"nvjitlink"` or `"ptxas"`; None if there was none."""
    version: str | None = None
    """The version of the validator."""
    target: str | None = None
    """The architecture compiled for."""
    reason: str = ""
    """Why it is a compiler bug, or unavailable."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The compiler's messages, located in the tree, in document order."""
    paths: tuple[Path, ...] = ()
    """For each diagnostic, the node concerned; `()` if unknown."""
    resources: tuple[Resources, ...] = ()
    """Resource usage of each kernel of a valid module."""
    skipped: tuple[Skipped, ...] = ()
    """The validators that were tried before."""
    log: str = attrs.field(default="", repr=False)
    """The complete output of the compiler."""
    cubin: bytes | None = attrs.field(default=None, repr=False)
    """The machine code, if the validator returns it (the driver does not)."""

    @property
    def ok(self) -> bool:
        """Whether a compiler has accepted the module."""
        return self.outcome is Outcome.VALID

    def kernel(self, name: str) -> Resources:
        """The resource usage of a kernel. Raises KeyError."""
        for resources in self.resources:
            if resources.kernel == name:
                return resources
        raise KeyError(name)

    def as_json(self) -> dict[str, Any]:
        """The verdict in the JSON format of `ptxkit validate`, version 1."""
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
