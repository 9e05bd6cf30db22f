"""What nvJitLink and ptxas say, each where it is there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import ptxkit
from ptxkit import Outcome, Severity
from ptxkit.revalidation import Verdict

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
GOOD = (
    HEAD
    + """.visible .entry k(.param .u64 p) {
    .shared .align 4 .b8 sm[128];
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [p];
    ld.global.u32 %r1, [%rd1];
    st.shared.u32 [sm], %r1;
    bar.sync 0;
    ld.shared.u32 %r2, [sm+4];
    st.global.u32 [%rd1], %r2;
    ret;
}
.visible .entry empty() { ret; }
"""
)
EXTERN = HEAD + ".extern .func ext();\n.visible .entry k() {\n    call.uni ext, ();\n    ret;\n}\n"


def revalidate(text: str, compiler: str, **options: object) -> Verdict:
    return ptxkit.revalidate(ptxkit.parse(text, "k.ptx"), using=[compiler], **options)  # type: ignore[arg-type]


@pytest.fixture(params=[True, False], ids=["isolated", "in this process"])
def isolated(request: pytest.FixtureRequest) -> bool:
    value: bool = request.param
    return value


def test_valid_with_resources(compiler: str, isolated: bool) -> None:
    verdict = revalidate(GOOD, compiler, isolated=isolated)

    assert verdict.ok
    assert verdict.outcome is Outcome.VALID
    assert (verdict.validator, verdict.target, verdict.diagnostics) == (compiler, "sm_80", ())
    assert verdict.version
    assert verdict.cubin is not None
    assert verdict.cubin.startswith(b"\x7fELF")
    k = verdict.kernel("k")
    assert k.registers is not None
    assert 2 <= k.registers <= 32
    assert (k.shared, k.spill_stores, k.spill_loads, k.stack, k.barriers) == (128, 0, 0, 0, 1)
    assert k.constant
    assert [one.kernel for one in sorted(verdict.resources, key=lambda one: one.kernel)] == ["empty", "k"]
    with pytest.raises(KeyError):
        verdict.kernel("nothing")


def test_not_optimized(compiler: str, isolated: bool) -> None:
    text = HEAD + (
        ".visible .entry k(.param .u64 p)\n{\n    .reg .b32 %r<3>;\n    .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [p];\n"
        "    ld.global.u32 %r1, [%rd1];\n    xor.b32 %r2, %r1, %r1;\n    st.global.u32 [%rd1], %r2;\n    ret;\n}\n"
    )

    as_ever, plain = [revalidate(text, compiler, isolated=isolated, optimized=optimized) for optimized in (True, False)]

    assert as_ever.ok
    assert plain.ok
    assert as_ever.cubin != plain.cubin
    assert (as_ever.kernel("k").registers or 0) < (plain.kernel("k").registers or 0)


def test_spills_and_stack(compiler: str) -> None:
    loads = "".join(f"    ld.volatile.global.u32 %r{i}, [%rd1+{4 * i}];\n" for i in range(60))
    stores = "".join(f"    st.volatile.global.u32 [%rd1+{4 * i}], %r{i};\n" for i in range(60))
    text = HEAD + (
        ".visible .entry k(.param .u64 p) .maxnreg 24\n{\n    .reg .b32 %r<60>;\n    .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [p];\n"
        f"{loads}    bar.sync 0;\n{stores}    ret;\n}}\n"
    )

    k = revalidate(text, compiler).kernel("k")

    assert k.registers is not None
    assert k.registers <= 24
    assert k.spill_stores
    assert k.spill_loads
    assert k.stack


def test_errors_stand_at_nodes(compiler: str, isolated: bool) -> None:
    text = GOOD.replace("%r2, [sm+4]", "%r7, [sm+4]").replace("[sm], %r1", "[nowhere], %r1").replace("ld.global.u32", "ld.globe.u32")

    module = ptxkit.parse(text, "k.ptx")
    verdict = ptxkit.revalidate(module, using=[compiler], isolated=isolated)

    assert verdict.outcome is Outcome.INVALID
    assert verdict.resources == ()
    assert verdict.cubin is None
    unknown = [one for one in verdict.diagnostics if one.message.startswith("Unknown")]
    found = [(text[one.span.start : one.span.end], one.span.line, one.function, one.path) for one in unknown]
    assert found == [(".globe", 9, "k", "k.ptx"), ("nowhere", 10, "k", "k.ptx"), ("%r7", 12, "k", "k.ptx")]
    for diagnostic, path in zip(verdict.diagnostics, verdict.paths, strict=True):
        assert diagnostic.severity is Severity.ERROR
        assert diagnostic.rule == compiler
        assert text[diagnostic.span.start : diagnostic.span.end] in module.at(path).text


def test_extern(compiler: str) -> None:
    alone = revalidate(EXTERN, compiler)
    assert alone.outcome is Outcome.INVALID
    assert [EXTERN[one.span.start : one.span.end] for one in alone.diagnostics] == ["ext"]

    part = revalidate(EXTERN, compiler, relocatable=True)
    assert part.ok
    assert part.diagnostics == ()
    assert part.kernel("k").registers


def test_false_success_of_nvjitlink(nvjitlink: str) -> None:
    """In one process, a failed link after an unknown version is reported as success by all that were tried, 12.9 to 13.5."""
    for _ in range(6):
        assert revalidate(GOOD.replace("8.0", "99.0"), nvjitlink, isolated=False).outcome is Outcome.UNAVAILABLE
        assert revalidate(EXTERN, nvjitlink, isolated=False).outcome is Outcome.INVALID
        assert revalidate(GOOD.replace("99.0", "8.0"), nvjitlink, isolated=False).ok
        assert revalidate(GOOD.replace("sm[128]", "sm[1280000]"), nvjitlink, isolated=False).outcome is Outcome.INVALID


def test_too_much_shared_stands_at_the_kernel(compiler: str) -> None:
    text = GOOD.replace("sm[128]", "sm[1280000]")

    (diagnostic,) = revalidate(text, compiler).diagnostics

    assert "too much shared data" in diagnostic.message
    assert text[diagnostic.span.start : diagnostic.span.end] == "k"


@pytest.mark.parametrize("text", ["", "hello", "\0", GOOD + "\0" + GOOD, GOOD + "\0", "\ud800", HEAD[:12] + "\udcff"])
def test_what_is_no_module_is_never_valid(text: str, compiler: str, isolated: bool) -> None:
    verdict = revalidate(text, compiler, isolated=isolated)

    assert verdict.outcome is Outcome.INVALID
    assert verdict.diagnostics


def test_newer_than_the_compiler(compiler: str) -> None:
    verdict = revalidate(GOOD.replace("8.0", "99.0"), compiler)

    assert verdict.outcome is Outcome.UNAVAILABLE
    assert "99.0" in verdict.skipped[0].reason


def test_older_than_ptx(compiler: str) -> None:
    assert revalidate(GOOD.replace("8.0", "0.9"), compiler).outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("named", "wanted", "outcome", "compiled"),
    [
        ("sm_35", None, Outcome.VALID, "sm_75"),
        ("sm_90a", None, Outcome.VALID, "sm_90a"),
        ("sm_80", "sm_90", Outcome.VALID, "sm_90"),
        ("sm_90a", "sm_100", Outcome.INVALID, "sm_100"),
        ("sm_90", "sm_80", Outcome.INVALID, "sm_80"),
        ("sm_80", "sm_9999", Outcome.UNAVAILABLE, None),
    ],
)
def test_target(named: str, wanted: str | None, outcome: Outcome, compiled: str | None, compiler: str) -> None:
    verdict = revalidate(GOOD.replace("sm_80", named), compiler, target=wanted)

    assert (verdict.outcome, verdict.target) == (outcome, compiled)


def test_line_markers(compiler: str) -> None:
    """After `# 100 "a.cu"` the compiler counts from there."""
    lines = (".entry k() {", ".reg .b32 %r<3>;", '# 100 "a.cu"', "add.u32 %r1, %r2, %r9;", '# 7 "b.cu"', "add.u32 %r1, %r8, 1;", "ret; }")
    text = HEAD + "\n".join(lines)

    verdict = revalidate(text, compiler)

    unknown = [(one.message, one.span.line, one.span.column) for one in verdict.diagnostics if "Unknown" in one.message]
    assert unknown == [("Unknown symbol '%r9'", 7, 19), ("Unknown symbol '%r8'", 9, 14)]


def test_no_such_target(compiler: str) -> None:
    verdict = revalidate(GOOD.replace("sm_80", "sm_80a"), compiler)

    assert verdict.outcome is Outcome.INVALID
    assert [(one.span.line, one.span.column) for one in verdict.diagnostics] == [(2, 9)]


def test_crlf(compiler: str) -> None:
    text = GOOD.replace("[sm], %r1", "[nowhere], %r1").replace("\n", "\r\n")

    (unknown,) = [one for one in revalidate(text, compiler).diagnostics if "Unknown" in one.message]

    assert (unknown.span.line, unknown.span.column) == (10, 20)


def test_a_real_crash(compiler: str) -> None:
    """A vector of eight 16-bit registers kills ptxas 13.0 and 13.5; a newer one may refuse it. The caller lives either way."""
    text = HEAD.replace("8.0", "9.0").replace("sm_80", "sm_90a") + (
        ".entry k() {\n    .reg .b16 h<8>;\n    .reg .u64 a0;\n    ld.global.v8.b16 {h0,h1,h2,h3,h4,h5,h6,h7}, [a0];\n    ret;\n}\n"
    )

    verdict = revalidate(text, compiler)

    assert verdict.outcome in (Outcome.COMPILER_BUG, Outcome.INVALID)
    if verdict.outcome is Outcome.COMPILER_BUG:
        assert verdict.reason == "it was killed by SIGSEGV"


def test_threads(compiler: str) -> None:
    texts = [GOOD, EXTERN, GOOD.replace("8.0", "99.0")] * 6
    expected = [Outcome.VALID, Outcome.INVALID, Outcome.UNAVAILABLE] * 6
    before = threading.active_count()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: revalidate(text, compiler, isolated=compiler != "nvjitlink").outcome, texts))

    assert found == expected
    assert threading.active_count() == before


def test_nothing_stays_on_disk(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)

    for text in (GOOD, EXTERN, "hello"):
        revalidate(text, compiler)

    assert list(tmp_path.iterdir()) == []


def test_the_tree_as_it_prints_is_what_is_judged(compiler: str) -> None:
    module = ptxkit.parse(GOOD)
    path = next(path for path, node in module.walk() if node.text.strip() == "ret;")

    broken = module.replace(path, ptxkit.parse_statement("\n    bra nowhere;"))

    assert ptxkit.revalidate(module, using=[compiler]).ok
    assert not ptxkit.revalidate(broken, using=[compiler]).ok


def test_older_than_parts_of_programs(nvjitlink: str) -> None:
    """nvJitLink compiles everything as a part of a program, which is no fault of a module that is older than that."""
    verdict = revalidate(GOOD.replace("8.0", "3.0").replace("sm_80", "sm_20"), nvjitlink)

    assert verdict.outcome is Outcome.UNAVAILABLE
    assert "since 3.1" in verdict.skipped[0].reason
