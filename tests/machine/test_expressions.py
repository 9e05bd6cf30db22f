"""Constants and addresses of operands in compiled code."""

from __future__ import annotations

from typing import Any

import pytest
from test_launching import kernel, run

np = pytest.importorskip("numpy")

from ptxkit.machine.expressions import constant  # noqa: E402
from ptxkit.syntax import parse_operand  # noqa: E402


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("7", "u4", 7),
        ("-1", "u4", 0xFFFFFFFF),
        ("0x1FF", "u1", 0xFF),
        ("-1", "i8", -1),
        ("0f3F800000", "f4", 1.0),
        ("0f3F800000", "u4", 0x3F800000),
        ("0d3FF0000000000000", "u8", 0x3FF0000000000000),
        ("0f3F800000", "f8", 1.0),
        ("2", "f4", 2.0),
    ],
)
def test_a_constant_as_a_dtype(text: str, dtype: str, value: Any) -> None:
    found = constant(parse_operand(text), np.dtype(dtype))

    assert found == value
    assert found.dtype == np.dtype(dtype)


def test_a_name_is_no_constant() -> None:
    assert constant(parse_operand("%r1"), np.dtype("u4")) is None


@pytest.mark.parametrize(
    ("address", "value"), [("[s]", 10), ("[s+4]", 11), ("[s+8-4]", 11), ("[%r5]", 12), ("[%r5+4]", 13), ("[%r5+-8]", 10)]
)
def test_addresses_of_elements(address: str, value: int) -> None:
    """`s` has the elements 10, 11, 12 and 13; `%r5` is the address of the third."""
    before = ".shared .align 4 .b8 s[16];\n"
    fill = " ".join(f"st.shared.u32 [s+{4 * i}], {10 + i};" for i in range(4))

    assert (
        run(kernel(f"{fill} mov.u32 %r5, s+8; ld.shared.u32 %r6, {address}; st.global.u32 [%rd3], %r6; ret;", before=before), count=1)[0]
        == value
    )
