"""The instructions that a monitor has seen, by number, so that arrays can hold them; and their arguments by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ptxkit.machine.code import Site


class Sites:
    """Instructions, numbered from 0 in the order in which a monitor first asks for them."""

    def __init__(self) -> None:
        self._sites: list[Site] = []
        self._numbers: dict[int, int] = {}

    def __getitem__(self, number: int) -> Site:
        return self._sites[number]

    def number(self, site: Site) -> int:
        """The number of an instruction."""
        found = self._numbers.get(id(site))
        if found is None:
            found = self._numbers[id(site)] = len(self._sites)
            self._sites.append(site)
        return found
