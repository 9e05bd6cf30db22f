"""Groupings of arrivals that complete a barrier together (9.7.14.1, 9.7.14.3).

A barrier completes when the expected number of threads have arrived, and is reused at once. Which arrivals meet depends on the order of
threads: all orders are explored, and each grouping of arrivals into phases is given once.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ptxkit.frozen import frozen


@frozen
class Arrival:
    """A thread arrives at a barrier. `threads` is the barrier's thread count; None: all that have not exited."""

    event: int
    barrier: Hashable
    waits: bool
    threads: int | None = None


@frozen
class Phase:
    """Arrivals (events) that complete a barrier together."""

    barrier: Hashable
    events: tuple[int, ...]


@frozen
class Meeting:
    """How the barriers of an execution complete. `stuck` are threads with the event that each waits at forever."""

    phases: tuple[Phase, ...]
    stuck: tuple[tuple[int, int], ...]


@frozen
class _State:
    at: tuple[int, ...]
    """The number of arrivals that each thread has made."""
    waiting: frozenset[int]
    """Threads that wait at their last arrival."""
    arrived: tuple[tuple[Hashable, tuple[tuple[int, int], ...]], ...]
    """Barriers with the threads and events that have arrived since the last completion, sorted."""
    phases: frozenset[Phase]


def meetings(threads: Sequence[Sequence[Arrival]], awaits_all: bool) -> list[Meeting]:
    """All possible meetings of these arrivals, given for each thread of one CTA.

    `awaits_all`: a barrier without a count waits for all threads that have not exited; otherwise, for those that will still arrive.
    """
    start = _State((0,) * len(threads), frozenset(), (), frozenset())
    seen = {start}
    pending = [start]
    found: dict[tuple[frozenset[Phase], tuple[tuple[int, int], ...]], Meeting] = {}
    while pending:
        state = pending.pop()
        following = _completions(state, threads, awaits_all) or [
            _arrived(state, t, threads[t][state.at[t]])
            for t in range(len(threads))
            if t not in state.waiting and state.at[t] < len(threads[t])
        ]
        for one in following:
            if one not in seen:
                seen.add(one)
                pending.append(one)
        if not following:
            stuck = tuple((t, threads[t][state.at[t] - 1].event) for t in sorted(state.waiting))
            phases = tuple(sorted(state.phases, key=lambda one: one.events))
            found.setdefault((state.phases, stuck), Meeting(phases, stuck))
    return list(found.values())


def _arrived(state: _State, thread: int, arrival: Arrival) -> _State:
    at = tuple(n + (t == thread) for t, n in enumerate(state.at))
    waiting = state.waiting | {thread} if arrival.waits else state.waiting
    arrived = dict(state.arrived)
    arrived[arrival.barrier] = tuple(sorted((*arrived.get(arrival.barrier, ()), (thread, arrival.event))))
    return _State(at, waiting, tuple(sorted(arrived.items(), key=repr)), state.phases)


def _completions(state: _State, threads: Sequence[Sequence[Arrival]], awaits_all: bool) -> list[_State]:
    """The states after a full barrier has completed, which happens at once."""
    for barrier, entries in state.arrived:
        present = {t for t, _ in entries}
        count = next(one.threads for t, event in entries for one in threads[t] if one.event == event)
        if count is not None:
            is_full = len(entries) >= count
        else:
            is_full = all(_is_missed(state, t, threads[t], barrier, awaits_all) for t in range(len(threads)) if t not in present)
        if not is_full:
            continue
        phase = Phase(barrier, tuple(event for _, event in entries))
        released = {t for t in present if t in state.waiting and threads[t][state.at[t] - 1].barrier == barrier}
        arrived = tuple((name, them) for name, them in state.arrived if name != barrier)
        return [_State(state.at, state.waiting - released, arrived, state.phases | {phase})]
    return []


def _is_missed(state: _State, thread: int, arrivals: Sequence[Arrival], barrier: Hashable, awaits_all: bool) -> bool:
    """Whether a barrier need not wait for a thread: it has exited, or (unless `awaits_all`) never arrives again."""
    if thread in state.waiting:
        return not awaits_all and all(one.barrier != barrier for one in arrivals[state.at[thread] :])
    rest = arrivals[state.at[thread] :]
    return not rest if awaits_all else all(one.barrier != barrier for one in rest)
