"""Whether threads wait forever: they iterate loops, or give up waiting and wait again, and nothing that they read can change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch
    from ptxkit.machine.residents import Residents

LONG = 64
"""After this many rounds in which all groups iterated and no thread exited, further CTAs become resident, in case the loops wait for
them."""
ROUNDS = 20_000
"""How often all groups may give up waiting without any change before this is a standstill."""
IDLE = 16
"""After this many rounds without a write, the clock is stopped to find out whether threads wait for anything but time."""
LEAPS = (1 << 40) + (1 << 31) - 1, (1 << 40) + 2_000_000
"""Cycles by which the clock is then advanced: many, both for the 32 bits of `%clock` and for those of `%globaltimer`."""
SAME = 2
"""How often everything may be found unchanged before this is a standstill."""


class Standstill:
    """What has changed since the threads looked last. Registers are compared by a hash that the scheduler computes."""

    def __init__(self, launch: Launch, residents: Residents) -> None:
        self.launch = launch
        self.residents = residents
        self._loops: tuple[int, int, int] = (0, 0, -1)
        """Of the loops that all groups iterate: registers, rounds without an exit, and exits until then."""
        self._state: Any = None
        self._standing = 0
        self._limits = (0, -1)
        """How often lanes have given up waiting since the last write, and writes until then."""
        self._given_up_with: Any = None
        self._repeated = 0
        self._unchanged = (-1, -1)
        self._idle = 0
        self._leaps = 0

    @property
    def is_idle(self) -> bool:
        """Whether no thread has written or exited for a long time."""
        return self._idle > IDLE

    def loops_wait(self, registers: int) -> bool:
        """Called when all groups iterate loops. Whether these may wait for CTAs that are not resident: with unchanged registers they
        certainly wait; a loop that counts or backs off may just be long."""
        before, rounds, exits = self._loops
        rounds = rounds + 1 if exits == self.residents.exits else 0
        self._loops = (registers, rounds, self.residents.exits)
        return registers == before or rounds % LONG == LONG - 1

    def is_reached(self, registers: int) -> bool:
        """Whether all groups have returned to the same state, and nothing that they read can change."""
        state = self._world(registers)
        self._standing = self._standing + 1 if state == self._state else 0
        self._state = state
        return self._standing > SAME and not self.residents.memory.host and not self._let_time_pass()

    def gives_up(self, registers: int, *, is_random: bool) -> bool:
        """Whether lanes with a time-limited wait should give up once more. Not if this repeats forever: all lanes that gave up have
        returned with the same registers, and nothing else has changed."""
        rounds, writes = self._limits
        rounds = rounds + 1 if writes == self.residents.writes else 1
        self._limits = (rounds, self.residents.writes)
        self.watch_clock()
        if rounds > ROUNDS:
            return False
        now = self._world(registers)
        self._repeated = self._repeated + 1 if now == self._given_up_with else 0
        self._given_up_with = now
        repeats = self._repeated > SAME and not is_random and not self.residents.memory.host
        return not repeats or self._let_time_pass()

    def _world(self, registers: int) -> tuple[int, int, int, int]:
        """All that threads can read, as far as it may change. The clock counts unless it is stopped."""
        clock = self.launch.reads if self.launch.stopped is None else -1
        return registers, self.residents.writes, self.residents.exits, clock

    def watch_clock(self) -> None:
        """Stops the clock after a long time without writes, and restarts it after a write."""
        changed = self.residents.writes, self.residents.exits
        if changed != self._unchanged:
            self._unchanged, self._idle, self._leaps = changed, 0, 0
            self.launch.start_clock()
        self._idle += 1
        if self._idle == IDLE:
            self.launch.stop_clock()

    def _let_time_pass(self) -> bool:
        """Advances the stopped clock, in case threads wait for a time. Returns whether they should look again."""
        if self.launch.stopped is None or self._leaps == len(LEAPS):
            return False
        self.launch.leap(LEAPS[self._leaps])
        self._leaps += 1
        self._standing = self._repeated = 0
        return True
