"""The CUDA driver itself. The recorded run stands in docs/revalidation.md."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxkit
from ptxkit import Outcome
from ptxkit.files import decode
from ptxkit.revalidation.verdict import Verdict

ROOT = Path(__file__).resolve().parents[2]
HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
GOOD = (
    HEAD
    + """.visible .entry k(.param .u64 p) {
    .shared .align 4 .b8 sm[128];
    .local .align 4 .b8 lm[64];
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    ld.global.u32 %r1, [%rd1];
    st.shared.u32 [sm], %r1;
    bar.sync 0;
    ld.shared.u32 %r2, [sm+4];
    cvt.u64.u32 %rd2, %r2;
    mov.u64 %rd3, lm;
    cvta.local.u64 %rd3, %rd3;
    add.u64 %rd3, %rd3, %rd2;
    st.volatile.u32 [%rd3], %r2;
    ld.volatile.u32 %r3, [%rd3+8];
    st.global.u32 [%rd1], %r3;
    ret;
}
"""
)

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def _driver() -> None:
    verdict = ptxkit.revalidate(ptxkit.parse(HEAD), using=["driver"])
    if verdict.outcome is Outcome.UNAVAILABLE:
        pytest.skip(verdict.skipped[0].reason)


def by_driver(text: str, **options: object) -> Verdict:
    return ptxkit.revalidate(ptxkit.parse(text), using=["driver"], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("isolated", [True, False])
def test_valid(isolated: bool) -> None:
    verdict = by_driver(GOOD, isolated=isolated)

    assert verdict.ok
    assert verdict.target is not None
    k = verdict.kernel("k")
    assert k.registers is not None
    assert 4 <= k.registers <= 64
    assert k.stack is not None
    assert k.stack >= 64
    assert k.shared == 128
    assert (k.spill_stores, k.spill_loads) == (0, 0)


@pytest.mark.parametrize("isolated", [True, False])
def test_invalid(isolated: bool) -> None:
    text = GOOD.replace("[sm], %r1", "[nowhere], %r1")

    verdict = by_driver(text, isolated=isolated)

    assert verdict.outcome is Outcome.INVALID
    (unknown,) = [one for one in verdict.diagnostics if "Unknown symbol" in one.message]
    assert (unknown.span.line, unknown.span.column) == (11, 20)


def test_extern() -> None:
    text = HEAD + ".extern .func ext();\n.visible .entry k() {\n    call.uni ext, ();\n    ret;\n}\n"

    assert by_driver(text).outcome is Outcome.INVALID
    assert by_driver(text, relocatable=True).ok


def test_what_it_cannot_judge() -> None:
    assert by_driver(GOOD.replace("7.0", "99.0")).outcome is Outcome.UNAVAILABLE
    assert by_driver(GOOD.replace("sm_75", "sm_52"), target="sm_75").outcome is not Outcome.INVALID


def test_a_nul_cuts_nothing_off() -> None:
    assert by_driver(GOOD + "\0 garbage").outcome is Outcome.INVALID


def test_fixtures_load() -> None:
    """Those for the oldest target, which every GPU since runs."""
    for path in sorted((ROOT / "fixtures" / "kernels").glob("*.sm_80.ptx"))[:12]:
        verdict = by_driver(decode(path.read_bytes()), relocatable=True)

        assert verdict.outcome in (Outcome.VALID, Outcome.UNAVAILABLE), (path.name, verdict)
