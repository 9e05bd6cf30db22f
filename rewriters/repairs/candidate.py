"""Candidates for a repair, before they are tried."""

from __future__ import annotations

from ptxkit.diagnostics import Edit
from ptxkit.frozen import frozen
from ptxkit.rewriters.repairs.edits import instead, put
from ptxkit.rewriters.repairs.points import Point, depth
from ptxkit.rewriters.repairs.trouble import Trouble

OPERAND, MOVE, COMMIT, FENCE, WARP_BARRIER, STRONGER, WAIT, BARRIER, CLUSTER_BARRIER = 1, 1, 2, 2, 4, 5, 6, 8, 16
"""Relative cost of one execution of each kind of edit."""
LAST = 1024
"""Added to the price of candidates that are to be tried last."""
ROUNDS = 8
"""Assumed number of iterations of a loop."""


@frozen
class Candidate:
    """Edits of a text. `says` describes them, as in "insert `bar.sync 0` before line 9"."""

    says: str
    edits: tuple[Edit, ...]
    price: int
    """The relative cost of the candidate."""
    at: tuple[int, ...] = ()
    """The instructions that are changed."""
    is_move: bool = False
    """Whether its edits form a unit: what is removed at one point is inserted at another."""
    is_number: bool = False
    """Whether it changes a number, which only an execution can show to be correct."""
    weaker: tuple[Candidate, ...] = ()
    """Weaker forms, strongest first: each is tried as long as the previous ones suffice."""


def insertion(trouble: Trouble, point: Point, kind: int, *statements: str) -> Candidate:
    """Inserts statements at a point."""
    routine, index = trouble.routine, trouble.index
    line = index.span(routine.where(point.instruction)).line
    text = " and ".join([f"`{one.rstrip(';')}`" for one in statements])
    edits = (put(index, routine, point, *statements),)
    price = kind * ROUNDS ** depth(routine, point)
    return Candidate(f"insert {text} {'after' if point.after else 'before'} line {line}", edits, price)


def change(trouble: Trouble, i: int, statement: str, price: int = OPERAND) -> Candidate:
    """Replaces an instruction by another statement."""
    routine, index = trouble.routine, trouble.index
    line = index.span(routine.where(i)).line
    text = " ".join(index.text[slice(*_span(trouble, i))].split()).rstrip(";")
    says = f"make line {line} `{statement.rstrip(';')}`" if statement else f"remove `{text}` on line {line}"
    return Candidate(says, (instead(index, routine, i, statement),), price * ROUNDS ** depth(routine, Point(i)), (i,))


def move(trouble: Trouble, i: int, point: Point, kind: int = MOVE) -> Candidate:
    """Moves an instruction."""
    routine, index = trouble.routine, trouble.index
    lines = [index.span(routine.where(one)).line for one in (i, point.instruction)]
    text = index.text[slice(*_span(trouble, i))]
    says = f"move `{' '.join(text.split()).rstrip(';')}` from line {lines[0]} to {'after' if point.after else 'before'} line {lines[1]}"
    edits = (instead(index, routine, i, ""), put(index, routine, point, text))
    deeper = max(0, depth(routine, point) - depth(routine, Point(i)))
    return Candidate(says, edits, kind * ROUNDS**deeper, (i,), is_move=True)


def _span(trouble: Trouble, i: int) -> tuple[int, int]:
    span = trouble.index.span(trouble.routine.where(i))
    return span.start, span.end
