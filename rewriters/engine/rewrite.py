"""The result of a rewriter, and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import attrs

from ptxkit.diagnostics import Diagnostic, Severity
from ptxkit.frozen import frozen
from ptxkit.syntax import Function, Index, Module, Path, Target


class Refusal(NamedTuple):
    """An edit that would break something: its node and the reason. `name` is one word for each kind of reason."""

    name: str
    path: Path
    message: str
    notes: tuple[str, ...] = ()


def diagnostics(module: Module, refusals: Iterable[Refusal]) -> tuple[Diagnostic, ...]:
    """Refusals as diagnostics on the nodes of the original module."""
    index: Index | None = None
    found = []
    for refusal in refusals:
        index = index or Index(module)
        function = module.at(refusal.path[:1]) if refusal.path else None
        name = function.name if isinstance(function, Function) else None
        found.append(
            Diagnostic("X001", refusal.name, Severity.ERROR, refusal.message, index.span(refusal.path), module.path, name, refusal.notes)
        )
    return tuple(found)


class Refused(Exception):
    """A rewrite that cannot be done; nothing was changed. `diagnostics` say where and why."""

    def __init__(self, module: Module, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        self.module = module
        first = self.refusals[0]
        more = f" (and {len(self.refusals) - 1} more)" if len(self.refusals) > 1 else ""
        super().__init__(f"{first.name}: {first.message}{more}")

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return diagnostics(self.module, self.refusals)


class FailedCheck(Refused):
    """A rewrite after which the module would have new errors; they refer to the new module."""

    def __init__(self, module: Module, errors: tuple[Diagnostic, ...]) -> None:
        self.module = module
        self._errors = errors
        self.refusals = ()
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        Exception.__init__(self, f"{errors[0].message}{more}")

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return self._errors


def require_readable(module: Module) -> None:
    """Raises Refused, with the syntax errors, if there are any: unreadable text may use any name and be reached from anywhere."""
    if module.diagnostics:
        raise FailedCheck(module, module.diagnostics)


class Probe(NamedTuple):
    """An insertion: before or after the instruction of that index (from 0, in document order), or at another `place`."""

    function: str
    instruction: int
    place: str


class Argument(NamedTuple):
    """A parameter added to a kernel: what the host must pass, and its offset in the parameter space."""

    kernel: str
    name: str
    type: str
    offset: int
    bytes: int


class Variable(NamedTuple):
    """A variable added to the module."""

    name: str
    space: str
    bytes: int


def _frozen(options: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(options))


@frozen
class Manifest:
    """What was done, for the program that launches the module or reads its results."""

    rewriter: str
    options: Mapping[str, Any] = attrs.field(factory=dict, converter=_frozen, eq=dict)
    probes: tuple[Probe, ...] = ()
    arguments: tuple[Argument, ...] = ()
    variables: tuple[Variable, ...] = ()
    changes: tuple[str, ...] = ()
    """Other changes, as text."""

    def as_json(self) -> dict[str, Any]:
        """The manifest as JSON data, version 1."""
        return {
            "version": 1,
            "rewriter": self.rewriter,
            "options": dict(self.options),
            "probes": [probe._asdict() for probe in self.probes],
            "arguments": [argument._asdict() for argument in self.arguments],
            "variables": [variable._asdict() for variable in self.variables],
            "changes": list(self.changes),
        }


@frozen
class Rewrite:
    """A new module, what was done, and what was omitted because it would have broken something."""

    module: Module
    manifest: Manifest
    refusals: tuple[Refusal, ...] = ()
    """Instructions of the *original* module at which a rewriter that may continue without them could do nothing."""
    refused: tuple[object, ...] = attrs.field(default=(), eq=False, repr=False)
    """The edit of each refusal."""

    @property
    def text(self) -> str:
        return self.module.text


def debugging(module: Module) -> tuple[Refusal, ...]:
    """Why the registers of a module cannot be renamed, if so: debuggers use their names to locate values."""
    if "debug" not in module.targets:
        return ()
    at = next(i for i, child in enumerate(module.children) if isinstance(child, Target))
    note = "take the debugging data out first: `ptxkit rewrite strip-debug`"
    return (Refusal("debugging-data", (at,), "debugging data names the registers, in a form that is not rewritten", (note,)),)
