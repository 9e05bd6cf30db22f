"""What instructions of one form, shape and constants have in common."""

from __future__ import annotations

import pytest
from test_launching import kernel

np = pytest.importorskip("numpy")

from ptxkit.isa.binding import Bound  # noqa: E402
from ptxkit.machine import Machine  # noqa: E402
from ptxkit.machine.known import Known, described, is_plain, known  # noqa: E402


def of(instruction: str) -> tuple[Known, bool]:
    """What is known of an instruction, and whether it has no constants."""
    body = Machine().load(kernel(f"{instruction} ret;")).program("k", False, False).entry
    site = body.sites[-2]
    assert isinstance(site.bound, Bound)
    return known(described(site, site.bound, "sm_90a")), is_plain(site)


def test_arguments_and_results() -> None:
    found, plain = of("fma.rn.f32 %f1, %f2, %f3, %f4;")

    assert plain
    assert found.names == ["a", "b", "c"]
    assert [(operand.name, dtype) for operand, dtype in found.writes] == [("d", np.dtype(np.float32))]
    assert [dtype for _, _, dtype in found.reads] == [np.dtype(np.float32)] * 3


def test_constants_belong_to_the_operation() -> None:
    found, plain = of("add.u32 %r5, %r6, 7;")

    assert not plain
    assert dict(found.operation.constants) == {"b": 7}


def test_the_carry_flag_is_the_last_argument() -> None:
    assert of("addc.u32 %r5, %r6, %r7;")[0].names == ["a", "b", "CC"]
