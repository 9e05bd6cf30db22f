"""The compiler's messages about one planted error stand at that error, to the column."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

import ptxkit
from ptxkit import Outcome
from ptxkit.files import decode

ROOT = Path(__file__).resolve().parents[2]


def _seeds_module() -> object:
    spec = importlib.util.spec_from_file_location("revalidate_seeds", Path(__file__).with_name("seeds.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_messages_stand_at_planted_errors(compiler: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At least 200 modules; every message about each of them must be at the planted place, in 95 of 100 or more."""
    make = _seeds_module().seeds  # type: ignore[attr-defined]
    choice = random.Random(6)
    hits: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    misses = []
    for path in sorted((ROOT / "fixtures" / "kernels").glob("*.ptx")):
        if path.stat().st_size > 12_000 or path.name.startswith("debug"):
            continue
        for seed in make(ptxkit.parse(decode(path.read_bytes()), path.name), choice, 3):
            # in this process: no planted error kills a compiler, and it is ten times as fast
            verdict = ptxkit.revalidate(seed.module, using=[compiler], isolated=False, relocatable=True)
            totals[seed.kind] += 1
            assert verdict.outcome is Outcome.INVALID, (path.name, seed.kind, verdict)
            start = seed.start
            places = [(one.span.start, found[: len(seed.path)]) for one, found in zip(verdict.diagnostics, verdict.paths, strict=True)]
            if all(place == (start, seed.path) for place in places):
                hits[seed.kind] += 1
            else:
                line = seed.module.at(seed.path[: len(seed.path) - 1]).text.strip()[:80]
                misses.append(f"{path.name} {seed.kind}: {[(one.message, one.span.column) for one in verdict.diagnostics]} {line!r}")

    with capsys.disabled():
        rate = 100 * hits.total() / totals.total()
        print(f"\n{compiler}: {hits.total()} of {totals.total()} planted errors at their node and column ({rate:.1f} %)")
        for kind, total in sorted(totals.items()):
            print(f"  {kind:22} {hits[kind]} of {total}")
        print("\n".join(f"  missed: {miss}" for miss in misses))
    assert totals.total() >= 200
    assert len(totals) >= 18
    assert hits.total() >= 0.95 * totals.total()
