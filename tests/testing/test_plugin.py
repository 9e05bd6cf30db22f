"""The pytest plugin, in tests of its own; `assert_equal_on`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ptxkit.machine import Fault
from ptxkit.rewriters.profiling.device import MachineDevice, NoDevice
from ptxkit.rewriters.running import launched
from ptxkit.syntax import parse
from ptxkit.testing import Backend, FindingsError, assert_equal_on, backend

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
SCALE = (ROOT / "fixtures" / "profiling" / "scale.ptx").read_text()
TURN = """.version 8.0
.target sm_80
.address_size 64
.visible .entry turn(.param .u64 p)
{
.reg .b64 %rd<4>; .reg .b32 %r<8>;
.shared .align 4 .b8 s[256];
ld.param.u64 %rd1, [p];
mov.u32 %r1, %tid.x;
mov.u32 %r2, s;
shl.b32 %r3, %r1, 2;
add.u32 %r4, %r2, %r3;
st.shared.u32 [%r4], %r1;
bar.sync 0;
sub.u32 %r5, 252, %r3;
add.u32 %r4, %r2, %r5;
ld.shared.u32 %r6, [%r4];
mul.wide.u32 %rd2, %r1, 4;
add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r6;
ret;
}
"""
RACE = TURN.replace("bar.sync 0;\n", "")
TURNED = np.arange(64, dtype=np.uint32)[::-1]
OWN = f'''
import numpy as np
import pytest

TURN = """{TURN}"""
RACE = """{RACE}"""

def test_turn(ptxkit_backend):
    out = np.zeros(64, np.uint32)
    ptxkit_backend.launch(TURN, "turn", out, block=64)
    assert list(out) == list(range(63, -1, -1))

def test_race(ptxkit_backend):
    ptxkit_backend.launch(RACE, "turn", np.zeros(64, np.uint32), block=64)

@pytest.mark.ptxkit_on("gpu")
def test_gpu(ptxkit_backend):
    assert ptxkit_backend.on == "gpu"

@pytest.mark.ptxkit_on("machine")
def test_machine(ptxkit_backend):
    assert ptxkit_backend.on == "machine"
'''
PLUGIN = ("-p", "no:ptxkit", "-p", "ptxkit.testing.plugin", "-p", "no:cacheprovider", "--strict-markers")


def test_on_the_machine_monitors_fail_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN)
    done = pytester.runpytest(*PLUGIN, "--ptxkit-on", "machine")

    done.assert_outcomes(passed=2, failed=1, skipped=1)
    done.stdout.fnmatch_lines(["*FindingsError: turn:", "*data race*"])


def test_without_monitors(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(OWN)

    pytester.runpytest(*PLUGIN, "--ptxkit-on", "machine", "--ptxkit-checks", "none").assert_outcomes(passed=3, skipped=1)


def test_a_gpu_that_is_not_there_is_an_error(pytester: pytest.Pytester) -> None:
    try:
        backend("gpu")
    except NoDevice:
        pytester.makepyfile(OWN)
        pytester.runpytest(*PLUGIN, "--ptxkit-on", "gpu").assert_outcomes(errors=4)
    else:
        pytest.skip("there is a GPU")


def test_a_gpu(pytester: pytest.Pytester) -> None:
    try:
        backend("gpu")
    except NoDevice as why:
        pytest.skip(str(why))
    pytester.makepyfile(OWN)
    pytester.runpytest(*PLUGIN, "--ptxkit-on", "gpu", "-k", "not race").assert_outcomes(passed=2, skipped=1, deselected=1)


def test_the_plugin_loads_nothing_before_it_is_used(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import sys
        def test_nothing():
            assert not [name for name in sys.modules if name.startswith(("ptxkit.machine", "ptxkit.syntax", "numpy"))]
    """)

    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_equal_on_all_places_and_schedules() -> None:
    out = np.zeros(64, np.uint32)
    assert_equal_on([Backend("machine"), Backend("machine", "sm_90a")], TURN, "turn", out, block=64, expected={0: TURNED})

    assert not out.any()


def test_what_is_not_as_expected_is_told() -> None:
    with pytest.raises(
        AssertionError, match=r"argument 0: 64 of 64 elements differ; \[0\] is 0 \(expected\) and 63 \(machine schedule lockstep\)"
    ):
        assert_equal_on(["machine"], TURN, "turn", np.zeros(64, np.uint32), block=64, expected={0: np.arange(64, dtype=np.uint32)})


def test_what_differs_between_schedules_is_told() -> None:
    unwatched = Backend("machine", checks=())
    text = RACE.replace("ld.shared.u32 %r6, [%r4];", "atom.shared.inc.u32 %r6, [s], 1000;")
    with pytest.raises(AssertionError, match=r"elements differ; .* \(machine schedule lockstep\) and .* \(machine schedule "):
        assert_equal_on([unwatched], text, "turn", np.zeros(64, np.uint32), block=64, schedules=("lockstep", *range(1, 9)))


def test_floats_may_differ_within_a_tolerance() -> None:
    x = np.arange(140, dtype=np.float32)
    i = np.arange(140)
    wanted = np.concatenate([[0], np.where(i % 50 < 7, x * 8 / 2 ** (i % 4), 0)]).astype(np.float32)
    near = {1: wanted * np.float32(1 + 1e-6)}
    arguments = (SCALE, "scale", x, np.zeros(141, np.float32), 140, 8.0)

    assert_equal_on(["machine"], *arguments, grid=3, block=50, expected=near, rtol=1e-5)
    with pytest.raises(AssertionError, match="argument 1"):
        assert_equal_on(["machine"], *arguments, grid=3, block=50, expected=near)


def test_a_race_fails_and_a_fault_is_one() -> None:
    with pytest.raises(FindingsError, match="data race"):
        assert_equal_on(["machine"], RACE, "turn", np.zeros(64, np.uint32), block=64)
    with pytest.raises((Fault, FindingsError)):
        Backend("machine").launch(TURN, "turn", np.zeros(8, np.uint32), block=64)


def test_a_place_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="'cpu' is none of auto, machine, gpu"):
        backend("cpu")


def test_what_launches_on_a_gpu_launches_on_any_driver() -> None:
    out = np.zeros(64, np.uint32)
    launched(MachineDevice("sm_80"), parse(TURN), "turn", out, grid=1, block=64)

    assert (out == TURNED).all()
    with pytest.raises(TypeError, match="1 parameters, 0 arguments"):
        launched(MachineDevice("sm_80"), parse(TURN), "turn", grid=1, block=64)
