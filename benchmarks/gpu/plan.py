"""What a run on the GPU is made of: modules of the fixtures with their launches, and variants of them."""

from __future__ import annotations

import json
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "fixtures" / "kernels"
TARGETS = ("sm_80", "sm_90a")
"""Those of the fixtures' targets whose code a device of capability 9.0 runs."""
LARGE = 200_000
"""Characters of a module from which on it is not compiled whole for the sake of one kernel."""
MOST_TEXT = 1_000_000
"""The characters of text that one job has, about."""
WORK = ROOT / ".gpu-work"


@attrs.frozen
class Fixture:
    """A module and the launches of its kernels."""

    name: str
    target: str
    text: str
    kernels: tuple[dict[str, Any], ...]

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([kernel["entry"] for kernel in self.kernels]))


@attrs.frozen
class Variant:
    """Other text for the module of a fixture, whose outputs are to be equal to the original's."""

    name: str
    text: str
    only: str | None = None
    """The one kernel that it is for; all if None."""
    entries: dict[str, str] = attrs.field(factory=dict)
    """By the name of a kernel in the original, its name here, if that is another."""
    capture: dict[str, Any] | None = None
    """The buffer that the kernel takes after all its arguments: the fields of `launcher.Capture`."""
    watch: dict[str, dict[str, Any]] | None = None
    """For a module with probes, by launch: the fields of `launcher.Watch`."""
    about: dict[str, Any] = attrs.field(factory=dict)
    """What whoever judges the record needs to know."""


def fixtures(targets: Sequence[str] = TARGETS, only: Sequence[str] = (), shapes: bool = False) -> Iterator[Fixture]:
    """The fixtures in the order of `launch.toml`; with `shapes`, each kernel also in other shapes of launch that are safe for it."""
    entries: dict[str, list[dict[str, Any]]] = {}
    for kernel in tomllib.loads((KERNELS / "launch.toml").read_text())["kernel"]:
        entries.setdefault(kernel["file"], []).append(kernel)
    for name, kernels in entries.items():
        for target in targets:
            path = KERNELS / f"{name}.{target}.ptx"
            if path.exists() and (not only or name in only):
                launches = [launch for kernel in kernels for launch in _launches(kernel, shapes)]
                yield Fixture(name, target, path.read_bytes().decode("utf-8", "surrogateescape"), tuple(launches))


def _launches(kernel: dict[str, Any], shapes: bool) -> Iterator[dict[str, Any]]:
    """The launch as it is in the file, the same on other input, and with fewer blocks where there are several.

    Fewer blocks touch no memory that more would not. What a kernel then leaves undone, it leaves undone in every variant. A barrier over
    the whole grid counts the blocks that there are.
    """
    yield {**kernel, "id": kernel["entry"]}
    if not shapes:
        return
    if any(argument.get("fill") == "random" for argument in kernel["args"]):
        yield {**kernel, "id": f"{kernel['entry']}+seed", "seed": 1000}
    step = kernel.get("cluster", [1])[0]
    blocks = kernel["grid"][0]
    fewer = max(blocks // 2 // step * step, step)
    if fewer < blocks:
        yield {**kernel, "id": f"{kernel['entry']}+fewer", "grid": [fewer, *kernel["grid"][1:]]}


def write(path: Path, jobs: Sequence[tuple[Fixture, Sequence[Variant]]]) -> int:
    """Writes a plan for `launcher.py`; gives the number of launches of variants."""
    path.parent.mkdir(exist_ok=True)
    planned, count = [], 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def store(name: str, text: str) -> str:
            archive.writestr(name, text.encode("utf-8", "surrogateescape"))
            return name

        for fixture, variants in jobs:
            if not variants:
                continue
            stem = f"{fixture.name}.{fixture.target}"
            original = store(f"{stem}.ptx", fixture.text)
            listed: list[dict[str, Any]] = []
            for number, variant in enumerate(variants):
                listed.append({**attrs.asdict(variant), "ptx": store(f"{stem}.{number}.ptx", variant.text)})
                del listed[-1]["text"]
                count += len([kernel for kernel in fixture.kernels if variant.only in (None, kernel["entry"])])
            compact = [{key: value for key, value in variant.items() if value is not None} for variant in listed]
            # the variants of a large module go to several jobs, which run side by side
            size = max(MOST_TEXT // len(fixture.text), 1)
            for start in range(0, len(compact), size):
                planned.append(
                    {
                        "fixture": fixture.name,
                        "target": fixture.target,
                        "original": original,
                        "kernels": fixture.kernels,
                        "variants": compact[start : start + size],
                        "weight": sum([len(variant.text) for variant in variants[start : start + size]]),
                    }
                )
        archive.writestr("plan.json", json.dumps({"jobs": planned}))
    return count
