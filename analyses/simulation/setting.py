"""What a kernel is launched with: how many threads, in which clusters, and the numbers that it is given."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from ptxkit.frozen import frozen
from ptxkit.isa.types import types
from ptxkit.syntax import Function, Index, Module, constant_value, parse

Shape = tuple[int, int, int]
CLUSTER = ".reqnctapercluster"
ANY = "*"
"""The name of all parameters that have no number of their own."""


class CannotLaunch(ValueError):
    """The kernel says of itself that it is not launched so."""


@frozen
class Setting:
    """A launch. `parameters` are numbers by name, or by `name+offset` for a part of a structure; `boxes` bytes by tensor map."""

    block: Shape
    grid: Shape = (1, 1, 1)
    cluster: Shape = (1, 1, 1)
    parameters: Mapping[str, int] = attrs.field(factory=dict)
    boxes: Mapping[str, int] = attrs.field(factory=dict)
    """How many bytes a copy with a tensor map has, by the parameter that the map is."""
    memory: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    """What lies in global or constant memory, by the parameter or variable whose address is used: the first number, and by how much each is
    more than the one before."""

    @property
    def ranks(self) -> int:
        """The CTAs of a cluster."""
        return math.prod(self.cluster)

    def index(self, cluster: int, rank: int) -> Shape:
        """The location in the grid of a CTA of a cluster; clusters are counted along x first."""
        width, height = self.grid[0] // self.cluster[0], self.grid[1] // self.cluster[1]
        at = (cluster % width, cluster // width % height, cluster // (width * height))
        own = self.within(rank)
        return (
            at[0] * self.cluster[0] + own[0],
            at[1] * self.cluster[1] + own[1],
            at[2] * self.cluster[2] + own[2],
        )

    def within(self, rank: int) -> Shape:
        """The index of a CTA in its cluster."""
        return rank % self.cluster[0], rank // self.cluster[0] % self.cluster[1], rank // (self.cluster[0] * self.cluster[1])

    @property
    def clusters(self) -> int:
        """How many clusters the grid has."""
        return math.prod(self.grid) // self.ranks


def launched(module: Module, kernel: str, setting: Setting) -> Module:
    """The module with a kernel that says it is launched so. Raises CannotLaunch where it says otherwise, KeyError without such a kernel."""
    found = next((i for i, child in enumerate(module.children) if isinstance(child, Function) and child.name == kernel), None)
    function = module.children[found] if found is not None else None
    if found is None or not isinstance(function, Function) or function.body is None or not function.header.is_entry:
        raise KeyError(kernel)
    said: dict[str, tuple[int, ...]] = {}
    for directive in function.header.directives:
        sizes = [constant_value(argument) for argument in directive.arguments]
        if sizes and all(isinstance(size, int) for size in sizes):
            said[directive.name] = tuple(map(int, sizes))  # type: ignore[arg-type]
    _uniform_level(said, setting)
    if any(size % part for size, part in zip(setting.grid, setting.cluster, strict=True)):
        raise CannotLaunch(f"a grid of {_spoken(setting.grid)} has no clusters of {_spoken(setting.cluster)}")
    words = []
    if ".reqntid" not in said:
        words.append(f".reqntid {_spoken(setting.block)} ")
    if CLUSTER not in said:
        words.append(f"{CLUSTER} {_spoken(setting.cluster)} ")
    start = Index(module).span((found, 1)).start
    text = module.text
    return parse(text[:start] + "".join(words) + text[start:], module.path)


def _uniform_level(said: Mapping[str, tuple[int, ...]], setting: Setting) -> None:
    """Raises CannotLaunch where directives of a kernel rule a launch out."""
    for name, asked in ((".reqntid", setting.block), (CLUSTER, setting.cluster)):
        if name in said and (*said[name], 1, 1)[:3] != asked:
            raise CannotLaunch(f"the kernel is launched with {name} {_spoken(said[name])}, not with {_spoken(asked)}")
    if ".maxntid" in said and math.prod(setting.block) > math.prod(said[".maxntid"]):
        raise CannotLaunch(f"the kernel has at most {_spoken(said['.maxntid'])} threads (.maxntid), not {_spoken(setting.block)}")


def _spoken(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def declared_cluster(module: Module, kernel: str) -> Shape | None:
    """The cluster that a kernel says it is launched with."""
    for function in module.functions:
        if function.name == kernel:
            for directive in function.header.directives:
                sizes = [constant_value(argument) for argument in directive.arguments]
                if directive.name == CLUSTER and sizes and all(isinstance(size, int) and size > 0 for size in sizes):
                    return tuple([*map(int, sizes), 1, 1][:3])  # type: ignore[arg-type, return-value]
    return None


def bytes_of_box(box: object) -> int | None:
    """The bytes that a copy with a tensor map has: a number of them, or the box and the type of its elements. None for anything else."""
    if isinstance(box, int) and not isinstance(box, bool):
        return box if box > 0 else None
    if not isinstance(box, dict) or not isinstance(box.get("box"), list):
        return None
    sizes, kind = box["box"], types().get(f".{box.get('type')}")
    if kind is None or not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    return math.prod(sizes) * kind.bytes
