"""Functions as the machine sees them: where their instructions stand."""

from __future__ import annotations

import pytest
from test_launching import kernel

pytest.importorskip("numpy")

from ptxkit.machine import Machine


def test_sites_are_where_their_instructions_stand() -> None:
    """Labels, declarations and blocks lie between the instructions, in nested blocks too."""
    text = kernel(
        "L0: add.u32 %r1, %r1, 1; { .reg .b32 a; L1: mov.u32 a, 1; { L2: mov.u32 a, 2; } mov.u32 a, 3; { } } bra L3; L3: L4: ret;"
    )
    loaded = Machine().load(text)
    body = loaded.program("k", False, False).entry
    assert len(body.instructions) > 6
    for i, instruction in enumerate(body.instructions):
        assert loaded.module.at(body.sites[i].path) is instruction
        assert loaded.names.scope_of(body.sites[i].path) is body.sites[i].scope
