"""Memory orders and scopes of accesses that publish data to other CTAs (8.7, 8.8), strengthened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ptxkit.analyses.cfg.paths import comes_to
from ptxkit.isa.binding import Bound
from ptxkit.rewriters.repairs.candidate import FENCE, OPERAND, Candidate, change, insertion
from ptxkit.rewriters.repairs.points import Point, right_after, synchronizes
from ptxkit.rewriters.repairs.trouble import STRONG, Trouble
from ptxkit.rewriters.repairs.wording import changed

FAMILIES = "SG"
ORDERS = (".weak", ".relaxed", ".acquire", ".release", ".acq_rel", ".volatile")
SCOPES = (".cta", ".cluster", ".gpu", ".sys")
MOST = 6


def cured(trouble: Trouble) -> Iterator[Candidate]:
    """The loads and stores of the finding, and those that may publish it, with ordering at the scope that contains both threads."""
    if trouble.family not in FAMILIES or "global" not in (trouble.spaces or ("global",)):
        return
    scope = ".cta" if trouble.is_of_a_cta else ".gpu"
    pairs = trouble.accesses or trouble.pairs[:2]
    ends = {i for pair in pairs for i in pair}
    # of racing accesses, the one whose counterpart synchronizes; for data, other accesses, which publish it
    flags = [i for pair in pairs for i, other in (pair, pair[::-1]) if _is_strong(trouble, other) or _is_strong(trouble, i)]
    near = [i for i in trouble.matching(_is_plain) if i not in ends and _is_strong(trouble, i) and _is_near(trouble, i, ends)]
    singles = [one for i in dict.fromkeys([*flags, *near][:MOST]) if (one := _ordered(trouble, i, scope)) is not None]
    yield from singles
    for n, one in enumerate(singles):
        for other in singles[n + 1 :]:
            says = f"{one.says}; {other.says}"
            yield Candidate(says, (*one.edits, *other.edits), one.price + other.price, (*one.at, *other.at))
    for i in _updates(trouble, pairs):
        for point in (Point(i), right_after(trouble.routine, i)):
            yield insertion(trouble, point, FENCE, f"fence.acq_rel{scope};")
    if flags or near:
        for point in trouble.common(loud=synchronizes):
            yield insertion(trouble, point, FENCE + 2, f"fence.acq_rel{scope};")


def _updates(trouble: Trouble, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Atomic updates between accesses, by which one thread may signal another: a fence there orders what precedes and follows them
    (8.7)."""
    updates = trouble.matching(lambda bound: any(one.access == "readwrite" and not one.is_async for one in bound.memory))
    return [
        i
        for i in updates
        if any(i not in pair and (comes_to(trouble.routine, pair[0], i) or comes_to(trouble.routine, i, pair[1])) for pair in pairs)
    ][:MOST]


def _is_near(trouble: Trouble, i: int, ends: Iterable[int]) -> bool:
    return any(comes_to(trouble.routine, i, end) or comes_to(trouble.routine, end, i) for end in ends)


def _is_strong(trouble: Trouble, i: int) -> bool:
    """Whether an access has ordering semantics, by which threads synchronize."""
    bound = trouble.bound(i)
    return bound is not None and any(one.order.lstrip(".") in STRONG for one in bound.memory if one.order)


def _is_plain(bound: Bound) -> bool:
    others = (".shared", ".local", ".param", ".const")
    return bound.form.mnemonic in ("ld", "st") and not any(one.startswith(others) for one in bound.modifiers)


def _ordered(trouble: Trouble, i: int, scope: str) -> Candidate | None:
    """A store with release, or a load with acquire semantics."""
    bound = trouble.bound(i)
    if bound is None or not _is_plain(bound):
        return None
    order = ".acquire" if bound.form.mnemonic == "ld" else ".release"
    if bound.has(order):
        wider = [one for one in SCOPES if bound.has(one)]
        if not wider or SCOPES.index(wider[0]) >= SCOPES.index(scope):
            return None
    words = trouble.routine.instructions[i].opcode.text.strip().split(".")
    kept = [word for word in words[1:] if f".{word}" not in (*ORDERS, *SCOPES) and word != "nc"]
    opcode = ".".join([words[0], order[1:], scope[1:], *kept])
    return change(trouble, i, changed(trouble.routine, i, opcode=lambda _: opcode), OPERAND + 1)
