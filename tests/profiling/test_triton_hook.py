"""Probes in what Triton compiles: against a stand-in with Triton's names, and the real Triton where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ptxkit.rewriters import instrument_triton
from ptxkit.rewriters.triton_hook import TritonRun

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCALE = (ROOT / "fixtures" / "profiling" / "scale.ptx").read_text()


@pytest.fixture
def triton(driver: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module `triton.compiler.compiler` of the stand-in."""
    for name in [name for name in sys.modules if name.split(".")[0] == "triton" or name in ("cuda", "cuda.bindings")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(HERE / "stand_in"))
    monkeypatch.syspath_prepend(str(HERE / "stand_in_triton"))
    importlib.import_module("cuda.bindings").driver = driver  # type: ignore[attr-defined]
    yield importlib.import_module("triton.compiler.compiler")
    for name in [name for name in sys.modules if name.split(".")[0] == "triton" or name in ("cuda", "cuda.bindings")]:
        del sys.modules[name]


def arguments(driver: ModuleType) -> list[bytes]:
    driver.cuInit(0)
    driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(0)[1])
    y = driver.cuMemAlloc(4 * 200)[1]
    return [y.to_bytes(8, "little"), y.to_bytes(8, "little"), (140).to_bytes(4, "little"), bytes(4)]


def counts(run: TritonRun) -> dict[tuple[int, int], tuple[int, list[Any]]]:
    """By grid and block, the launches and the counts."""
    return {(one.grid[0], one.block[0]): (one.launches, list(one.tables[0].column("count"))) for one in run.results()}


def test_launches_are_counted_by_kernel_and_shape(driver: ModuleType, triton: Any) -> None:
    given = arguments(driver)
    run = instrument_triton("block-counts", report=False)
    assert run.results() == []
    kernel = triton.compile("scale", SCALE, 1)
    kernel[(3,)](*given)
    kernel[(5, 1, 1)](*given)
    kernel[(3,)](*given)
    found = counts(run)
    assert {shape: launches for shape, (launches, _) in found.items()} == {(3, 32): 2, (5, 32): 1}
    assert found[3, 32][1][:2] == [192, 192]
    assert found[5, 32][1][:2] == [160, 140]
    run.reset()
    assert run.results() == []
    kernel[(3,)](*given)
    assert counts(run)[3, 32][1][:2] == [96, 96]
    run.reset()
    driver.cuMemFree(int.from_bytes(given[0], "little"))


def test_kernels_in_the_cache(driver: ModuleType, triton: Any) -> None:
    """Those made without probes are not taken for such with probes, nor the other way round; those made with the same are read."""
    given = arguments(driver)
    plain = triton.compile("scale", SCALE, 1)
    assert "ptxkit" not in plain.asm["ptx"]
    run = instrument_triton("block-counts", report=False)
    assert "ptxkit" in triton.compile("scale", SCALE, 1).asm["ptx"]
    assert len(triton.CACHE) == 2
    other = TritonRun(["block-counts"])  # as in another process: it has not made the text itself
    kernel = triton.compile("scale", SCALE, 1)
    other.before_launch(kernel, (1,), ())
    kernel[(1,)](*given)
    plain[(1,)](*given)
    (result,) = run.results()
    assert result.launches == 1
    kernel.asm["ptx"] += "\n/*ptxkit+*/ .global .b32 other;"
    assert other._manifest(kernel) is None  # made by something else: it would be read wrongly
    run.reset()
    other.reset()
    driver.cuMemFree(int.from_bytes(given[0], "little"))


def test_which_kernels_and_each_launch(driver: ModuleType, triton: Any, capsys: pytest.CaptureFixture[str]) -> None:
    given = arguments(driver)
    run = instrument_triton("block-counts", kernels="^sc", each=True, report=False)
    assert run.instrumented(SCALE.replace("scale", "other")) == SCALE.replace("scale", "other")
    kernel = triton.compile("scale", SCALE, 1)
    kernel[(1,)](*given)
    kernel[(1,)](*given)
    assert [one.launches for one in run.results()] == [1, 1]
    run.print(most=1)
    shown = capsys.readouterr().out
    assert "scale <<<(1, 1, 1), (32, 1, 1)>>> once" in shown and "1 of 5 rows" in shown
    run.reset()
    driver.cuMemFree(int.from_bytes(given[0], "little"))


def test_mistakes_are_told_at_once(triton: Any) -> None:
    with pytest.raises(ValueError, match="no probe is called"):
        instrument_triton("no-such-probe", report=False)


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(ImportError):
        instrument_triton("block-counts", report=False)


def test_what_cannot_be_instrumented_is_compiled_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    run = TritonRun(["block-counts"])

    def refuse(*_: object) -> None:
        raise ValueError("it cannot be done")

    monkeypatch.setattr("ptxkit.rewriters.triton_hook.instrument", refuse)
    with pytest.warns(RuntimeWarning, match="no probes in scale: it cannot be done"):
        assert run.instrumented(SCALE) == SCALE


def test_real_triton_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    spec = importlib.util.spec_from_file_location("triton_add", ROOT / "fixtures" / "kernels" / "triton_add.py")
    assert spec is not None and spec.loader is not None
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    run = instrument_triton("block-counts", report=False)
    constants = dict.fromkeys(kernel.CONSTANTS, "constexpr")
    source = ASTSource(fn=kernel.KERNEL, signature=kernel.SIGNATURE | constants, constexprs=kernel.CONSTANTS)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=kernel.OPTIONS)
    assert "ptxkit" in compiled.asm["ptx"] and b"__pk_words" in compiled.asm["cubin"]
    assert run._manifest(compiled) is not None
