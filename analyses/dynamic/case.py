"""A run whose findings are judged, and the other runs that judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import attrs

from ptxkit.analyses.dynamic.choosing import Launched, first_valid
from ptxkit.analyses.dynamic.findings import is_in as shows
from ptxkit.analyses.dynamic.findings import is_refuted, leaves_shared
from ptxkit.analyses.dynamic.once import Ran
from ptxkit.analyses.dynamic.runs import Runs, Setting
from ptxkit.analyses.execution.contents import Contents
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.inputs.launches import Sizes, example
from ptxkit.analyses.inputs.shapes import Shape
from ptxkit.frozen import frozen
from ptxkit.isa.binding import Bound
from ptxkit.machine.findings import Finding

RANDOM = Contents("random", 1)

Findings = tuple[Finding, ...]
Question = Callable[["Case", Findings], Findings]
"""Runs the kernel again, different in one respect. Gives the findings that remain: those that it does not concern or that appear again."""


class Untried(Exception):
    """A question cannot be answered; the text says why."""


@frozen
class Case:
    """A run whose findings are judged."""

    runs: Runs
    ran: Ran
    shape: Shape
    sizes: Sizes
    """The shape and sizes of its launch."""
    contrast: Sizes
    """Other sizes, with which its findings should appear too."""
    contents: Contents
    """Contents of memory in this run."""
    setting: Setting
    """The setting of runs with other sizes and shapes."""
    others: tuple[Contents, ...] = ()
    """Other contents, with which its findings should appear too."""
    flags: Mapping[int, int] = {}
    """Words, by address and size, that are zero for all contents: flags are meant to be zero initially, other data need not be."""

    @property
    def routine(self) -> Routine:
        """The kernel."""
        return self.runs.routine

    def again(self, contents: Contents | None = None, *, asked: Findings = (), **options: Any) -> Ran:
        """The same launch again, with other contents if given, until it has shown what is `asked`; for the options see `once`."""
        setting = attrs.evolve(self.setting, contents=contents or self.contents, asked=asked)
        return self.runs.once(self.ran.example, setting, **options)

    def resized(self, sizes: Sizes, asked: Findings = ()) -> Launched | None:
        """A launch of the same shape with other sizes, until it has shown what is `asked`; None if it is not valid."""
        return first_valid(self.runs, (self.shape,), sizes, attrs.evolve(self.setting, asked=asked))

    def within(self, shape: Shape, sizes: Sizes | None = None, asked: Findings = ()) -> Ran:
        """A run with another shape, or with other sizes if given, until it has shown what is `asked`."""
        return self.runs.within(shape, self.sizes if sizes is None else sizes, attrs.evolve(self.setting, asked=asked))

    def is_usual(self, sizes: Sizes) -> bool:
        """Whether these sizes change no argument of the kernel."""
        return example(self.routine, self.shape, sizes) == example(self.routine, self.shape)

    def not_refuted(self, found: Findings, shape: Shape) -> Findings:
        """The findings that a run with another shape does not refute. A shape that leaves a shared array is no launch; it refutes only
        that another shape leaves an array by the kernel's own fault, if it does so elsewhere."""
        other = self.within(shape, asked=found)
        if other.outside:
            return keep(found, lambda one: not leaves_shared(one) or other.outside != ".shared" or shows(one, other))
        return keep(found, lambda one: not is_refuted(one, other, self.ran))

    @cached_property
    def dependent(self) -> frozenset[int]:
        """The lines that depend on synthesized contents."""
        return frozenset(map(self.ran.line_of, self.ran.depends))

    @cached_property
    def branches(self) -> frozenset[int]:
        """The lines of branches that synthesized contents decide."""
        found = [site for site in self.ran.depends if isinstance(site.bound, Bound) and site.bound.form.mnemonic == "bra"]
        return frozenset(map(self.ran.line_of, found))

    @cached_property
    def dependent_stores(self) -> frozenset[int]:
        """The same, and the lines that store values which depend on such contents."""
        return frozenset(map(self.ran.line_of, self.ran.stores))

    @cached_property
    def addresses(self) -> frozenset[int]:
        """The lines whose addresses or membermasks depend on such contents."""
        return frozenset(map(self.ran.line_of, self.ran.addresses))

    @cached_property
    def by_tables(self) -> frozenset[int]:
        """The lines whose addresses are computed from such contents."""
        return frozenset(map(self.ran.line_of, self.ran.by_tables))

    def with_other_contents(self, asked: Findings) -> tuple[Ran, ...]:
        """The same launch with each of the other contents, if anything depends on contents, until it has shown what is `asked`."""
        return tuple([self.again(contents, asked=asked, zeroed=self.flags) for contents in self.others]) if self.dependent else ()


def keep(found: Findings, holds: Callable[[Finding], bool]) -> Findings:
    """The findings for which something holds."""
    return tuple([one for one in found if holds(one)])


def unless(is_doubtful: Callable[[Case, Finding], bool]) -> Question:
    """Asks each finding on its own."""
    return lambda case, found: keep(found, lambda one: not is_doubtful(case, one))
