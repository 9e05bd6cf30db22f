"""Steps of symbolic execution: what every exploration of paths does at a branch.

A predicate that is not decided lets a path be taken in two; a branch whose paths merge again before anything of interest needs not be
taken in two at all.
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
    """Whether a predicate holds or not, as far as neither contradicts what a path has chosen, and what it has chosen then.

    Nothing comes of a predicate that is not known.
    """
    for holds in (True, False) if condition is not None else ():
        chosen = choices.choose(condition, holds) if condition is not None else None
        if chosen is not None:
            yield holds, chosen


def open_edges(block: BasicBlock, holds: bool | None) -> list[Edge]:
    """The edges that control may take from a block whose last guard holds, or does not; all if that is not decided."""
    return [edge for edge in block.edges if holds is None or edge.via is Via.FALL or (edge.via is Via.TAKEN) == holds]


def quiet_region(routine: Routine, block: int, events: Container[int]) -> tuple[int, int] | None:
    """Where control merges again after a block's branch, and the blocks between, as bits, if none of these is among `events`.

    None if one is, or if control leaves the function before the paths merge.
    """
    flow, post = control_flow(routine), dominators(routine).post
    meet = post.parent[block] if block in post else -1
    if not 0 <= meet < len(flow.blocks):
        return None
    region = closure(flow.successors(block), lambda at: () if at == meet or at in events else flow.successors(at)) - {meet}
    return None if any(at in events for at in region) else (meet, mask_of(region))
