"""A candidate for a repair, before anything is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ptxkit.diagnostics import Edit
from ptxkit.frozen import frozen
from ptxkit.rewriters.repairs.edits import instead, put
from ptxkit.rewriters.repairs.points import Point, depth
from ptxkit.rewriters.repairs.trouble import Trouble

OPERAND, MOVE, COMMIT, FENCE, WARP_BARRIER, STRONGER, WAIT, BARRIER, CLUSTER_BARRIER = 1, 1, 2, 2, 4, 5, 6, 8, 16
"""What kinds of edits cost in comparison, once they are executed."""
LAST = 1024
"""What is added to the price of candidates that are to be tried last."""
ROUNDS = 8
"""So often a loop is taken to iterate."""


@frozen
class Candidate:
    """Edits of a text. `says` is what they do, as in "insert `bar.sync 0` before line 9"."""

    says: str
    edits: tuple[Edit, ...]
    price: int
    """What it costs in comparison with others."""
    at: tuple[int, ...] = ()
    """The instructions that are changed."""
    is_move: bool = False
    """Whether its edits are one, as what is put in at one point is taken out at another."""
    is_number: bool = False
    """Whether it changes a number, of which only an execution can show that it is the right one."""
    weaker: tuple[Candidate, ...] = ()
    """The same with less effect, from the one with the most on: each is tried as long as those before it were enough."""


Cure = Callable[[Trouble], Iterator[Candidate]]
"""Candidates of one kind for a finding."""


def insertion(trouble: Trouble, point: Point, kind: int, *statements: str) -> Candidate:
    """Statements at a point."""
    routine, index = trouble.routine, trouble.index
    line = index.span(routine.where(point.instruction)).line
    text = " and ".join([f"`{one.rstrip(';')}`" for one in statements])
    edits = (put(index, routine, point, *statements),)
    price = kind * ROUNDS ** depth(routine, point)
    return Candidate(f"insert {text} {'after' if point.after else 'before'} line {line}", edits, price)


def change(trouble: Trouble, i: int, statement: str, price: int = OPERAND) -> Candidate:
    """Another statement instead of an instruction."""
    routine, index = trouble.routine, trouble.index
    line = index.span(routine.where(i)).line
    text = " ".join(index.text[slice(*_span(trouble, i))].split()).rstrip(";")
    says = f"make line {line} `{statement.rstrip(';')}`" if statement else f"remove `{text}` on line {line}"
    return Candidate(says, (instead(index, routine, i, statement),), price * ROUNDS ** depth(routine, Point(i)), (i,))


def move(trouble: Trouble, i: int, point: Point, kind: int = MOVE) -> Candidate:
    """An instruction elsewhere."""
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
