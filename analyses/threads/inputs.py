"""What a kernel may be launched with where nobody says it: sizes and shapes of its CTAs, the indices of a CTA, arguments.

All that analyses guess, but for what is simulated (`simulation`), and for the one shape that symbolic values assume, which stand below
(`symbolic.thread_block`). What is found for such inputs holds of a launch with them: who reports it says which they are.
"""

from __future__ import annotations

from ptxkit.analyses.framework.bindings import specials
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.launch.launch import MOST_THREADS, launch
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symbolic.thread_block import ThreadBlock, thread_block_of
from ptxkit.analyses.threads.lanes import Thread

ARGUMENTS = (17, 1, 100, 1000, 0)
"""What arguments are taken to be, one after the other: first a number that divides nothing."""
FEW_ARGUMENTS = ARGUMENTS[:3]
"""Enough to part the threads of a warp."""
SMALL_AND_LARGE = (17, 1000)
"""For what must come out the same with both."""
SIZES = (128, 256, 64, 32, 512, 384, 288, 160, 1024)
"""How many threads a CTA has, most likely ones first."""
SHAPES = ((16, 16), (32, 8), (32, 32), (8, 8), (32, 4), (32, 16), (16, 8), (16, 4), (64, 4), (8, 32), (128, 2))
"""Usual shapes of CTAs that have two dimensions: width and height."""


def argument(leaf: Term, number: int) -> int:
    """A parameter for which a number is chosen: the multiple of what it is aligned to, within what it can be."""
    least, most = leaf.bounds
    return min(max(number * max(1, leaf.alignment) & ((1 << leaf.width) - 1), least), most)


def special(name: str, last: Thread, ctas: int = 2) -> int | None:
    """A special register that says where a CTA stands and how large it and the grid are: the first of `ctas`; None for other registers.

    `last` is the last thread of a CTA.
    """
    stem = name.partition(".")[0]
    if stem == "%ntid":
        return {"x": last.x, "y": last.y, "z": last.z}[name[-1]] + 1
    if stem in ("%nctaid", "%cluster_nctaid", "%nclusterid", "%cluster_nctarank"):
        return ctas if name[-1] in "xk" else 1
    return 0 if stem.startswith(("%ctaid", "%clusterid", "%cluster_cta")) else None


def block_sizes(routine: Routine) -> list[int]:
    """The numbers of threads that a kernel may be launched with, most likely ones first; none if they are laid out in y or z."""
    if specials(routine) & {"%tid.y", "%tid.z"}:
        return []
    most = launch(routine).most[0]
    return list(dict.fromkeys([*([most] if most < MOST_THREADS else []), *[size for size in SIZES if size <= most]]))


def likely_thread_block(routine: Routine) -> ThreadBlock | None:
    """The threads that a kernel is launched with, or most likely is; None if nothing is known of how they are laid out."""
    block = thread_block_of(routine)
    if not block.is_assumed:
        return block
    sizes = block_sizes(routine)
    return ThreadBlock((sizes[0], 1, 1), True) if sizes else None
