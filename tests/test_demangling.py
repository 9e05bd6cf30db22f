"""Names as the program wrote them."""

from __future__ import annotations

import pytest

from ptxkit.demangling import in_prose, matching, readable, short, variable

APPLY, APPLY_DOUBLE = "_ZN2my5applyIfLi64EEEvPT_i", "_ZN2my5applyIdLi64EEEvPT_i"
LONG = "_Z5applyI6VectorIS0_IS0_IS0_IS0_IS0_IS0_IS0_IS0_IS0_IfEEEEEEEEEEEvPT_"


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (APPLY, "my::apply<float, 64>"),
        ("_Z5applyIfZ4mainEUlfE_EvPT_T0_", "apply<float, main::'lambda'(float)>"),
        ("_Z3fooIXadL_Z3barvEEEvv", "foo<&bar()>"),
        ("_Z1fILb1ELj4ELin3EEvv", "f<true, 4u, -3>"),
        ("_ZN12_GLOBAL__N_15innerIiEEvPT_", "(anonymous namespace)::inner<int>"),
        ("_ZZN2my5applyIfLi64EEEvPT_iE3buf", "my::apply<float, 64>::buf"),
        ("_ZZ6kernelE4tile", "kernel::tile"),
        ("_ZN8__main__6matmulB2v3B9cw51cXTLSE5ArrayIfLi2E1C7mutable7alignedE", "__main__::matmul"),
        ("_ZN4core3ptr17h0123456789abcdefE", "core::ptr"),
        ("add_kernel", "add_kernel"),
        ("_Z", "_Z"),
        ("_Z99999999999999999999a", "_Z99999999999999999999a"),
        ("_ZN" + "N" * 5000, "_ZN" + "N" * 5000),
    ],
)
def test_readable(name: str, written: str) -> None:
    assert readable(name) == written


def test_long_names_are_cut() -> None:
    assert len(readable(LONG)) > 60
    assert short(LONG) == "apply<…>"
    assert short(APPLY) == "my::apply<float, 64>"
    assert variable("_ZZN2my5applyIfLi64EEEvPT_iE3buf") == "buf"


def test_messages_have_no_mangled_names() -> None:
    message = f"`{APPLY}_param_1` is read in {APPLY}: [{APPLY}_param_0+8], k_param_0, `_ZZ6kernelE4tile`"

    assert in_prose(message, [APPLY]) == (
        "parameter 1 (int) of my::apply<float, 64> is read in my::apply<float, 64>: "
        "[parameter 0 (float*) of my::apply<float, 64>+8], k_param_0, `tile`"
    )
    assert in_prose(message, [APPLY], {APPLY: ["p", "n"]}) == "`n` is read in my::apply<float, 64>: [p+8], k_param_0, `tile`"
    assert in_prose("`k_param_0`", ["k"]) == "parameter 0 of k"
    assert in_prose("parameter `k_param_0`", ["k"]) == "parameter 0 of k"
    assert in_prose("parameter `k_param_0`", ["k"], {"k": ["p"]}) == "parameter `p`"


def test_what_somebody_means() -> None:
    names = [APPLY, APPLY_DOUBLE, "apply_all", "other"]

    assert matching(APPLY, names) == [APPLY]
    assert matching("my::apply<float, 64>", names) == [APPLY]
    assert matching("apply", names) == [APPLY, APPLY_DOUBLE]
    assert matching("my::apply", names) == [APPLY, APPLY_DOUBLE]
    assert matching("apply<double", names) == [APPLY_DOUBLE]
    assert matching("oth", names) == ["other"]
    assert matching("nothing", names) == []
