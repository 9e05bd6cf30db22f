"""Kernels of a few lines, exercised with example launches."""

from __future__ import annotations

from typing import Any

import pytest

import ptxkit
from ptxkit.analyses.dynamic import runs as runs_module
from ptxkit.analyses.dynamic.by_sizes import NOT_TRIED
from ptxkit.analyses.dynamic.exercise import Exercised, exercise
from ptxkit.analyses.dynamic.judging import (
    CTAS,
    SHAPES,
    SIZES,
    Found,
)
from ptxkit.analyses.dynamic.once import Ran, once
from ptxkit.analyses.execution.loading import loaded
from ptxkit.analyses.framework.routine import routines
from ptxkit.analyses.inputs.example import Example

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<12>;\n"


def exercised(body: str, parameters: str = ".param .u64 p", directives: str = "", header: str = HEADER) -> Exercised:
    module = ptxkit.parse(f"{header}.visible .entry k({parameters}) {directives}\n{{\n{REGISTERS}{body}\nret;\n}}\n")
    return exercise(routines(module)[0], loaded(module))


def is_of_the_kernel(one: Found) -> bool:
    """Whether other sizes and shapes show a finding too."""
    return one.doubt not in (CTAS, NOT_TRIED, SIZES, SHAPES)


SHARED = """.shared .align 4 .b8 s[64];
mov.u32 %r1, %tid.x; mov.u32 %r2, s; shl.b32 %r3, %r1, 2; add.u32 %r2, %r2, %r3; st.shared.u32 [%r2], %r1;"""
INDEX = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;"


def counted(monkeypatch: pytest.MonkeyPatch) -> list[Example]:
    """The launches that are executed from now on, one after the other."""
    launches: list[Example] = []

    def counting(code: Any, one: Example, *arguments: Any, **named: Any) -> Ran:
        launches.append(one)
        return once(code, one, *arguments, **named)

    monkeypatch.setattr(runs_module, "once", counting)
    return launches
