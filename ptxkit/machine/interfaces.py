"""Type aliases for classes that modules of the machine receive as arguments but must not import, to avoid import cycles.

Each class is documented where it is defined.
"""

from __future__ import annotations

from typing import Any

Body = Any
"""`code.Body`: a function prepared for compilation."""
Machine = Any
"""`ptxkit.machine.Machine`: memory, target, loaded modules."""
Launch = Any
"""`launching.Launch`: shape, schedule, budget and monitors of a launch."""
Program = Any
"""`loading.Program`: a kernel with all functions that it may call, ready to be compiled."""
Monitor = Any
"""`monitoring.Monitor`: receives the events of a launch."""
Races = Any
"""`monitors.races.Races`: the monitor of unordered accesses, with its clocks and shadows."""
Residents = Any
"""`scheduling.Residents`: the resident CTAs, and the columns of their threads."""
Scheduler = Any
"""`scheduling.Scheduler`: the groups of lanes that can run."""
