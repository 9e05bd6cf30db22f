"""The classes that modules of the machine are handed from above and must not import, so that no two modules import one another.

Each is documented where it is defined; here they are names for signatures.
"""

from __future__ import annotations

from typing import Any

Machine = Any
"""`ptxkit.machine.Machine`: memory, target, loaded modules."""
Launch = Any
"""`launching.Launch`: shape, schedule, budget and monitors of a launch."""
Program = Any
"""`loading.Program`: a kernel with all functions that it may come to, ready to be compiled."""
Monitor = Any
"""`monitoring.Monitor`: what is notified of the events of a launch."""
Races = Any
"""`monitors.races.Races`: the monitor of accesses that nothing orders, and its clocks and shadows."""
Residents = Any
"""`scheduling.Residents`: the CTAs that are resident, and the columns of their threads."""
Scheduler = Any
"""`scheduling.Scheduler`: which groups of lanes can run."""
