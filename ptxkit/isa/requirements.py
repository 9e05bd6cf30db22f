"""Requirements of instructions for `.version` and `.target`.

A `Requirement` has a normal form: for every known target, the lowest version that satisfies it, or None if there is none. So the
requirement of a module is the maximum over its instructions for every target, without special cases.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.targets import Target, Version, parse_version, runs, split_target, targets, version_text


@frozen
class TargetNeed:
    """One of several alternative targets, with the version it needs if that differs from the others'."""

    target: str
    version: Version | None = None


@frozen
class Needs:
    """A requirement as the table writes it: `8.6 sm_100a sm_100f@8.8`."""

    version: Version | None = None
    targets: tuple[TargetNeed, ...] = ()


@frozen
class Alternative:
    """A sufficient target, with its lowest `.version`. Reads as "`sm_90` or later from 8.0"."""

    target: str
    version: Version


@attrs.frozen(cache_hash=True)
class Requirement:
    """For each of `targets()`, in their order, the lowest `.version`; None if no version suffices."""

    least: tuple[Version | None, ...]

    def version_for(self, target: str) -> Version | None:
        """The lowest `.version` with this target, or None if the target does not suffice. Raises KeyError for an unknown target."""
        return self.least[_columns()[target]]

    def alternatives(self) -> tuple[Alternative, ...]:
        """The lowest sufficient targets: the lowest base target, then `f` and `a` targets that it does not imply. Empty if there are
        none."""
        found: list[Alternative] = []
        for target in _from_general_to_special():
            version = self.version_for(target.name)
            if version is None or target.renamed:
                continue
            if any(runs(target.name, a.target) and version >= max(a.version, target.since) for a in found):
                continue
            found.append(Alternative(target.name, version))
        return tuple(found)

    def __str__(self) -> str:
        return " or ".join(f"{a.target} with .version {version_text(a.version)}" for a in self.alternatives()) or "no known target"


def anything() -> Requirement:
    """The requirement that every target satisfies from its first version on."""
    return requirement(Needs())


@cache
def requirement(needs: Needs) -> Requirement:
    """The normal form of a requirement as written."""
    return Requirement(tuple(_least(target, needs) for target in targets().values()))


def _least(target: Target, needs: Needs) -> Version | None:
    floor = max(needs.version or (0, 0), target.since)
    if not needs.targets:
        return floor
    versions = [max(t.version or floor, target.since) for t in needs.targets if runs(target.name, t.target)]
    return min(versions, default=None)


def every(requirements: Iterable[Requirement]) -> Requirement:
    """The conjunction of requirements: for a module, those of its instructions."""
    total = anything()
    for other in set(requirements):
        total = _both(total, other)
    return total


@cache
def _both(one: Requirement, other: Requirement) -> Requirement:
    return Requirement(tuple(None if a is None or b is None else max(a, b) for a, b in zip(one.least, other.least, strict=True)))


def satisfies(version: Version, target: str, needed: Requirement) -> bool:
    """Whether a module of this `.version` and `.target` satisfies a requirement. Raises KeyError for an unknown target."""
    least = needed.version_for(target)
    return least is not None and version >= least


@lru_cache(maxsize=2048)
def parse_needs(text: str) -> Needs:
    """`8.6 sm_100a sm_100f@8.8`, `8.6`, `sm_70` as `Needs`; also `8.6/sm_90|sm_100f` as it is written after the @ of an alternative.

    Raises ValueError, saying what was expected.
    """
    words = text.replace("/", " ").replace("|", " ").replace(",", " ").split()
    if not words:
        raise ValueError("a version as 8.6, or a target as sm_90, is expected")
    version = None if words[0].startswith("sm_") else parse_version(words.pop(0))
    return Needs(version, tuple(_target_need(word) for word in words))


def _target_need(word: str) -> TargetNeed:
    name, at, version = word.partition("@")
    split_target(name)
    if name not in targets():
        raise ValueError(f"a target of targets.isa is expected, not {name!r}")
    return TargetNeed(name, parse_version(version) if at else None)


@cache
def _columns() -> dict[str, int]:
    return {name: column for column, name in enumerate(targets())}


@cache
def _from_general_to_special() -> tuple[Target, ...]:
    return tuple(sorted(targets().values(), key=lambda t: (("", "f", "a").index(t.suffix), t.number)))
