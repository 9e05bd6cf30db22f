"""The possible number of threads that run a function, and so the ranges of special registers (10, 11.4)."""

from __future__ import annotations

import math

from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine, fact
from ptxkit.analyses.launch.callers import kernels_of
from ptxkit.analyses.numbers.known_bits import Known, between, top
from ptxkit.frozen import frozen
from ptxkit.isa.registers import special_register
from ptxkit.isa.types import types
from ptxkit.syntax import constant_value

MOST_THREADS = 1024
"""Maximum number of threads of a CTA in x, in y, and in total."""
MOST_IN_Z = 64
MOST_CTAS = (2**31 - 1, 65535, 65535)
MOST_IN_CLUSTER = 16
"""Maximum number of CTAs in a cluster on any device (non-portable sizes)."""
WARP = 32
WARP_MASK = (1 << WARP) - 1


@frozen
class Launch:
    """The shape of a CTA, as far as the function's directives give it."""

    threads: tuple[int, int, int] | None
    """The exact size in x, y and z (`.reqntid`), or None."""
    most: tuple[int, int, int]
    """The maximum size."""

    @property
    def count(self) -> int | None:
        """The number of threads in the CTA, if certain."""
        return math.prod(self.threads) if self.threads else None

    def range(self, name: str) -> tuple[int, int] | None:
        """The minimum and maximum of a special register, as far as known."""
        stem, _, component = name.partition(".")
        index = "xyz".find(component) if component else -1
        if index >= 0 and stem in ("%tid", "%ntid"):
            if stem == "%tid":
                return 0, self.most[index] - 1
            return (self.threads[index], self.threads[index]) if self.threads else (1, self.most[index])
        if index >= 0 and stem in ("%ctaid", "%nctaid"):
            return (0, MOST_CTAS[index] - 1) if stem == "%ctaid" else (1, MOST_CTAS[index])
        if stem in ("%cluster_ctaid", "%cluster_ctarank"):
            return 0, MOST_IN_CLUSTER - 1
        if stem in ("%cluster_nctaid", "%cluster_nctarank"):
            return 1, MOST_IN_CLUSTER
        return (0, WARP - 1) if name == "%laneid" else None

    def known(self, name: str) -> Known:
        """What is known about a special register, in the width of its type. Raises KeyError for an unknown name."""
        register = special_register(name)
        if register is None:
            raise KeyError(name)
        width = types()[register.types[0]].bits
        found = self.range(name)
        return between(*found, width) if found else top(width)


@fact
def launch(routine: Routine) -> Launch:
    """The shape of a kernel's CTAs according to its directives; for a device function, what all kernels that call it have in common.

    Otherwise, the limits of all devices. A shape that no device supports is ignored.
    """
    header = routine.function.header
    if not header.is_entry:
        return _of_any([launch(kernel) for kernel in kernels_of(routine) or ()])
    said: dict[str, tuple[int, int, int]] = {}
    for directive in header.directives:
        sizes = [constant_value(argument) for argument in directive.arguments]
        if 1 <= len(sizes) <= 3 and all(isinstance(size, int) and size > 0 for size in sizes):
            said[directive.name] = tuple([*map(int, sizes), 1, 1][:3])  # type: ignore[assignment, arg-type]
    exactly = said.get(".reqntid")
    if exactly is not None and exactly[2] <= MOST_IN_Z and math.prod(exactly) <= MOST_THREADS:
        return Launch(exactly, exactly)
    # .maxntid limits only the product: a CTA may be longer in x if it is shorter in y
    product = min(MOST_THREADS, math.prod(said.get(".maxntid", (MOST_THREADS, 1, 1))))
    return Launch(None, (product, product, min(product, MOST_IN_Z)))


def _of_any(launches: list[Launch]) -> Launch:
    """What holds for each of these launches."""
    if not launches:
        return Launch(None, (MOST_THREADS, MOST_THREADS, MOST_IN_Z))
    exactly = {one.threads for one in launches}
    x, y, z = [max([one.most[index] for one in launches]) for index in range(3)]
    return Launch(launches[0].threads if len(exactly) == 1 else None, (x, y, z))


def is_cooperative(kernel: Routine) -> bool:
    """Whether a kernel requests the memory for cooperative grid synchronization: then it is launched cooperatively."""
    return not specials(kernel).isdisjoint(("%envreg1", "%envreg2"))


def cluster_size(routine: Routine) -> int | None:
    """The number of CTAs in a cluster, if the kernel declares it."""
    for directive in routine.function.header.directives:
        if directive.name == ".reqnctapercluster":
            sizes = [constant_value(argument) for argument in directive.arguments]
            ctas = 1
            for size in sizes:
                if not isinstance(size, int):
                    return None
                ctas *= size
            return ctas if sizes else None
    return None
