"""The approximate reciprocal of an sm_90 (`MUFU.RCP`), bit for bit.

Of the 23 bits of a significand the first seven choose a row of three coefficients, and the others, t, are put into `c0 - c1 t + c2 t²`. The
square lacks the partial products below 2**17, for which the last constant makes up on average. The coefficients have 26, 16 and 10 bits;
they are the only ones that give what an H100 gave for each of the 2**23 significands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ptxkit.machine.values.floats import canonical

Array = np.ndarray[Any, Any]

_ROWS = (
    0xffffffbfffbf5, 0xfe03f83f02bdd, 0xfc0fc13e0b7c6, 0xfa232cfd19fb1, 0xf83e0f3c2db9b, 0xf6603dbb46f86, 0xf4898dba65773, 0xf2b9d63988b5f,
    0xf0f0f0b8b0f4d, 0xef2eb737ddf3b, 0xed7303f70f729, 0xebbdb27645317, 0xea0ea0f57f706, 0xe865acb4bdef6, 0xe6c2b474006e6, 0xe525983346ed7,
    0xe38e38f2912c7, 0xe1fc7831df2b8, 0xe070383130eaa, 0xdee95c308629d, 0xdd67c86fdee90, 0xdbeb61ef3ae82, 0xda740d6e9a677, 0xd901b22dfce6a,
    0xd79435ed6265d, 0xd62b812ccb252, 0xd4c77b2c36a46, 0xd3680d2ba523c, 0xd20d212b16631, 0xd0b69fea8a225, 0xcf6474ea00e1c, 0xce168a6979e11,
    0xcccccce8f5a07, 0xcb8727e873dfe, 0xca4587a7f45f5, 0xc907da67771ea, 0xc7ce0c66fc5e2, 0xc6980ca683dda, 0xc565c8a60d5d1, 0xc4372fe5991c9,
    0xc30c30e526dc1, 0xc1e4bbe4b69b9, 0xc0c0c0e4485b1, 0xbfa03023dc1aa, 0xbe82fa23719a2, 0xbd6910630919c, 0xbc526422a2193, 0xbb3ee7223d18d,
    0xba2e8be1d9d86, 0xb92143e17817f, 0xb81702a118179, 0xb70fbba0b9d73, 0xb60b60e05d16e, 0xb509e6a001966, 0xb40b409fa7d61, 0xb30f631f4f95c,
    0xb21642def8955, 0xb11fd41ea3551, 0xb02c0b1e4f14b, 0xaf3add9dfc546, 0xae4c415daad40, 0xad602b9d5ad3c, 0xac7691dd0bd36, 0xab8f69dcbe131,
    0xaaaaaa9c71d2e, 0xa9c84a9c26929, 0xa8e83f9bdc523, 0xa80a809b9351f, 0xa72f055b4b91b, 0xa655c41b04d17, 0xa57eb51abf112, 0xa4a9cf5a7a90f,
    0xa3d70a5a36d0a, 0xa3065e59f4507, 0xa237c319b2902, 0xa16b311972100, 0xa0a0a0d9324fb, 0x9fd80a18f38f8, 0x9f116618b58f3, 0x9e4cad18788f0,
    0x9d89d8983c8ed, 0x9cc8e198014e9, 0x9c09c0d7c70e7, 0x9b4c6fd78d4e2, 0x9a90e7d7548df, 0x99d722d71ccde, 0x991f1a56e58da, 0x9868c816af0d6,
    0x97b42616798d4, 0x97012e56448d0, 0x964fda56104cd, 0x95a02595dd0cc, 0x94f20955aa0c7, 0x94458095780c5, 0x939a85d546cc4, 0x92f11395160c1,
    0x92492494e5cbd, 0x91a2b3d4b64ba, 0x90fdbc54878b8, 0x905a3854594b6, 0x8fb824142bcb4, 0x8f1779d3fecb2, 0x8e783553d24af, 0x8dda5213a68ad,
    0x8d3dcb137b4ab, 0x8ca29bd3508a9, 0x8c08c093264a6, 0x8b703452fcca5, 0x8ad8f312d38a1, 0x8a42f892ab0a0, 0x89ae40928309f, 0x891ac7525b49b,
    0x888888923449a, 0x87f780920dc99, 0x8767ab51e7896, 0x86d90591c2095, 0x864b8a919cc93, 0x85bf375178091, 0x8534089153c8f, 0x84a9f9913008f,
    0x842108510c88c, 0x83993090e988a, 0x83126ed0c7089, 0x828cbfd0a4c87, 0x8208209083085, 0x81848dd061c84, 0x810203d040c83, 0x8080805020482,
)  # fmt: skip
"""For each row c0 (26 bits, in 2**-26), c1 (16 bits, in 2**-39) and c2 (10 bits, in 2**-56)."""
_ROUND = 18407
"""A half, and the mean of what the square lacks, in 2**-39."""


@cache
def _tables() -> tuple[Array, Array, Array, Array]:
    """By the upper half of an operand (sign, exponent and row) the coefficients, as doubles with the sign and scale of the result, and the
    squares of t in units of 2**17. The first coefficient has the last constant in it but for the half that rounding to single precision
    adds, and a small share of a unit, so that nothing is a tie."""
    upper = np.arange(1 << 16)
    coefficients = np.array(_ROWS, np.int64)[upper & 0x7F]
    scale = np.ldexp(np.where(upper >> 15, -1.0, 1.0), 88 - (upper >> 7 & 0xFF))
    c0 = (coefficients >> 26 << 13) + (_ROUND - (1 << 14) + 0.5)
    t = np.arange(1 << 16, dtype=np.int64)
    bits = [t >> n & 1 for n in range(16)]
    square = np.zeros(1 << 16)
    for i in range(16):
        for j in range(i, 16):
            weight = i + j + (i < j)
            if weight >= 17:
                square += bits[i] * bits[j] << (weight - 17)
    return c0 * scale, (coefficients >> 10 & 0xFFFF) * scale, (coefficients & 0x3FF) * scale, square


def reciprocal(a: Any) -> Any:
    """1/a of singles. Subnormal operands count as zero, and results below 2**-126 are zero; a NaN is the canonical one."""
    c0, c1, c2, square = _tables()
    a = np.asarray(a, np.float32)
    bits = a.view(np.uint32).astype(np.int64)
    upper, t = bits >> 16, bits & 0xFFFF
    # exact in doubles, and rounded once
    linear = c1.take(upper)
    linear *= t
    found = square.take(t)
    found *= c2.take(upper)
    found -= linear
    found += c0.take(upper)
    result = found.astype(np.float32)
    magnitude = np.absolute(a)
    ordinary = (magnitude >= 2.0**-126) & (magnitude <= 2.0**126)
    if ordinary.all():
        return result
    limit = np.where(magnitude < 1, np.float32(np.inf), np.float32(0))
    return canonical(np.where(np.isnan(a), a, np.where(ordinary, result, np.copysign(limit, a))))
