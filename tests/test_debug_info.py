"""Names of parameters from debug information."""

from __future__ import annotations

from pathlib import Path

import ptxkit
from ptxkit.debug_info import parameter_names
from ptxkit.demangling import readable

KERNELS = Path(__file__).resolve().parent.parent / "fixtures" / "kernels"


def test_what_nvcc_writes() -> None:
    module = ptxkit.parse((KERNELS / "debug_build.sm_80.ptx").read_text())
    found = {readable(name): names for name, names in parameter_names(module).items()}

    assert found == {
        "atomicAdd": ("address", "val"),
        "apply": ("acc", "value", "mode"),
        "square<float>": ("value",),
        "square<int>": ("value",),
        "debugged": ("in", "out", "n"),
    }


def test_none_without() -> None:
    assert parameter_names(ptxkit.parse(".version 8.0\n.target sm_80\n.entry k() { ret; }")) == {}


def test_damaged_data_has_no_names() -> None:
    text = (KERNELS / "debug_build.sm_80.ptx").read_text()
    start = text.index(".debug_info")
    for cut in range(1, 40):
        lines = text[start:].split("\n")
        damaged = text[:start] + "\n".join(lines[:2] + lines[2 + cut :])
        assert parameter_names(ptxkit.parse(damaged)) == {}
