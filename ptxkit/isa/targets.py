"""The targets of PTX, the versions that introduced them, and their compatibility (ISA 11.1.2)."""

from __future__ import annotations

from functools import cache

from ptxkit.frozen import frozen
from ptxkit.isa import resources

Version = tuple[int, int]

NEWEST = (9, 5)
"""The newest PTX version that is known to exist."""


@frozen
class Target:
    """`sm_100a` is `Target("sm_100a", 100, "a", (8, 6))`; `renamed` is the name it has in later PTX versions."""

    name: str
    number: int
    suffix: str
    since: Version
    renamed: str = ""

    @property
    def family(self) -> int:
        """Members of a family differ in the last digit only."""
        return self.number // 10

    @property
    def portability(self) -> str:
        """Where code for this target runs, as a sentence."""
        if self.suffix == "a":
            return "Code for this architecture only."
        return "Code for this family of architectures." if self.suffix == "f" else "Code for this architecture and later ones."


def parse_version(text: str) -> Version:
    """`"8.6"` as `(8, 6)`. Raises ValueError if the text is anything else."""
    major, dot, minor = text.partition(".")
    if not (dot and major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"{text!r} is not a PTX version, such as 8.6")
    return int(major), int(minor)


def version_text(version: Version) -> str:
    """`(8, 6)` as `8.6`."""
    return f"{version[0]}.{version[1]}"


def split_target(name: str) -> tuple[int, str]:
    """`"sm_100a"` as `(100, "a")`. Raises ValueError if it does not look like a target."""
    number, suffix = name.removeprefix("sm_"), ""
    if number[-1:] in ("a", "f"):
        number, suffix = number[:-1], number[-1]
    if not name.startswith("sm_") or not number.isdecimal():
        raise ValueError(f"{name!r} is not a target, such as sm_90 or sm_90a")
    return int(number), suffix


@cache
def targets() -> dict[str, Target]:
    """Every known target, by name."""
    table = {}
    for line in resources.read("targets.isa").splitlines():
        words = line.partition("#")[0].split()
        if words:
            number, suffix = split_target(words[0])
            table[words[0]] = Target(words[0], number, suffix, parse_version(words[1]), words[3] if len(words) > 2 else "")
    return table


@cache
def runs(target: str, wanted: str) -> bool:
    """Whether a module for `target` may use what needs `wanted`.

    `sm_90` is included in every later target, `sm_90a` in that one alone, `sm_100f` in the `f` and `a` targets of the family from that
    member on. A renamed target has what its new name has. Raises ValueError for text that is not a target.
    """
    if _runs(target, wanted):
        return True
    known = targets().get(target)
    return known is not None and known.renamed != "" and _runs(known.renamed, wanted)


def _runs(target: str, wanted: str) -> bool:
    number, suffix = split_target(target)
    least, kind = split_target(wanted)
    if kind == "a":
        return target == wanted
    if kind == "f":
        return suffix != "" and number // 10 == least // 10 and number >= least
    return number >= least
