"""Steps of symbolic execution, common to all path explorations.

An undecided predicate splits a path in two; a branch whose paths merge again before anything of interest need not split it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from ptxkit.analyses.cfg.dominators import dominators
from ptxkit.analyses.cfg.graph import BasicBlock, Edge, Via, control_flow
from ptxkit.analyses.cfg.reachability import closure
from ptxkit.analyses.framework.routine import Routine
from ptxkit.analyses.numbers.bits import mask_of
from ptxkit.analyses.symbolic.terms import Term
from ptxkit.analyses.symex.path_condition import Choices


def outcomes(choices: Choices, condition: Term | None) -> Iterator[tuple[bool, Choices]]:
    """The possible outcomes of a predicate that do not contradict a path's choices, each with the choices that result.

    Yields nothing for an unknown predicate.
    """
    for holds in (True, False) if condition is not None else ():
        chosen = choices.choose(condition, holds) if condition is not None else None
        if chosen is not None:
            yield holds, chosen


def open_edges(block: BasicBlock, holds: bool | None) -> list[Edge]:
    """The edges that control may take from a block, given whether its last guard holds; all edges if undecided."""
    return [edge for edge in block.edges if holds is None or edge.via is Via.FALL or (edge.via is Via.TAKEN) == holds]


def quiet_region(routine: Routine, block: int, events: Container[int]) -> tuple[int, int] | None:
    """The merge point of a block's branch and the blocks between, as bits, if none of them is among `events`.

    None if one is, or if control leaves the function before the paths merge.
    """
    flow, post = control_flow(routine), dominators(routine).post
    meet = post.parent[block] if block in post else -1
    if not 0 <= meet < len(flow.blocks):
        return None
    region = closure(flow.successors(block), lambda at: () if at == meet or at in events else flow.successors(at)) - {meet}
    return None if any(at in events for at in region) else (meet, mask_of(region))
