"""Launches that read of each matrix that a descriptor describes the first lines only; the rest counts as zeros.

A descriptor of `wgmma` or `tcgen05` may name more memory than there is, and a run would end there. It is a monitor, as these may say in
`begin` how a launch goes; it finds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxkit.machine.monitoring import Monitor

if TYPE_CHECKING:
    from ptxkit.machine.interfaces import Launch


class FirstLines(Monitor):
    """Limits what descriptors read."""

    def begin(self, launch: Launch) -> None:
        launch.first_lines = True
