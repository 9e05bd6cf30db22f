"""Modules are loaded for their own target, once for all their functions."""

from __future__ import annotations

from sample import HEAD

import ptxkit
from ptxkit.analyses.execution.loading import module_code
from ptxkit.analyses.framework.routine import routines


def test_a_module_is_loaded_once_for_all_its_functions() -> None:
    one, other = routines(ptxkit.parse(f"{HEAD}.visible .entry k()\n{{\nret;\n}}\n.visible .entry l()\n{{\nret;\n}}\n"))

    assert module_code(one) is module_code(other)
    assert module_code(one) is not None


def test_a_module_with_errors_is_not_loaded() -> None:
    routine = routines(ptxkit.parse(f"{HEAD}.visible .entry k()\n{{\nmov.u32 %r1, 1;\nret;\n}}\n"))[0]

    assert module_code(routine) is None
