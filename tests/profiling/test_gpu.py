"""Kernels that hang or break their context, on a GPU: the caller lives on and is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import ptxkit
from ptxkit.rewriters.probing import instrument
from ptxkit.rewriters.profiling.description import read
from ptxkit.rewriters.profiling.device import Device, NoDevice
from ptxkit.rewriters.profiling.isolation import Outcome, Profile, profile

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "fixtures" / "profiling"
TEXT = (FOLDER / "scale.ptx").read_text()

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    try:
        Device()
    except NoDevice as why:
        pytest.skip(str(why))


def profiled(text: str, changed: str | None = None, timeout: float = 60) -> Profile:
    """The kernel with probes; with `changed`, instead of the probed text."""
    made = instrument(ptxkit.parse(text), ["block-counts"])
    (launch,) = read(str(FOLDER / "launch.toml"))
    return profile(text, changed or made.text, made.manifest, launch, repeat=3, timeout=timeout)


def test_a_profile() -> None:
    found = profiled(TEXT)
    assert found.outcome is Outcome.EQUAL, found.detail
    assert found.tables[0].column("count") == [150, 140, 350, 210, 140]
    assert found.overhead is not None and found.overhead > 0
    assert found.registers is not None and found.registers_instrumented is not None


def test_a_kernel_that_hangs() -> None:
    hanging = TEXT.replace("add.s32 %r6, %r6, -1;", "")
    found = profiled(hanging, timeout=8)
    assert found.outcome is Outcome.HUNG
    assert found.detail.startswith("running the original: no end after 8 s; running the instrumented kernel: no end")
    assert profiled(TEXT).outcome is Outcome.EQUAL


def test_a_kernel_that_breaks_its_context() -> None:
    found = profiled(TEXT.replace("[%rd4]", "[%rd4+1099511627776]"))
    assert found.outcome is Outcome.FAILED
    assert "running the original: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS" in found.detail
    assert profiled(TEXT).outcome is Outcome.EQUAL


def test_bounds_tell_which_access_went_astray() -> None:
    """Host memory can be read when the context is broken."""
    made = instrument(ptxkit.parse(TEXT.replace("[%rd4]", "[%rd4+1099511627776]")), ["bounds:act=trap"])
    (launch,) = read(str(FOLDER / "launch.toml"))
    found = profile(TEXT.replace("[%rd4]", "[%rd4+1099511627776]"), made.text, made.manifest, launch, timeout=60)
    assert found.outcome is Outcome.FAILED
    first = next(table for table in found.tables if table.name == "bounds-first")
    assert first.column("line") == [33] and first.column("failure") == ["out of bounds"]


def test_a_kernel_that_computes_something_else() -> None:
    made = instrument(ptxkit.parse(TEXT), ["block-counts"])
    found = profiled(TEXT, made.text.replace("0f3F000000", "0f3E800000"))
    assert found.outcome is Outcome.DIFFERENT
    assert found.detail.startswith("argument 1: ")


def test_a_text_that_the_driver_refuses() -> None:
    made = instrument(ptxkit.parse(TEXT), ["block-counts"])
    found = profiled(TEXT, made.text.replace("mul.f32 %f3", "mul.f32 %nowhere"))
    assert found.outcome is Outcome.FAILED
    assert "loading the instrumented kernel: cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX" in found.detail and "nowhere" in found.detail
