"""The fixtures' launches on the machine: the same arguments as on the GPU, and the outputs as the record has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import launcher
import numpy as np
from plan import Fixture

WORDS = ("buffer", "tensormap", "texture", "surface")


def arguments(machine: Any, kernel: dict[str, Any]) -> tuple[list[Any], list[tuple[int, int, str, Any, int]]]:
    """The arguments of a launch, and those that are outputs: number, element's bytes, how it is compared, its buffer and bytes."""
    given: list[Any] = []
    outputs: list[tuple[int, int, str, Any, int]] = []
    for index, argument in enumerate(kernel["args"]):
        if "scalar" in argument:
            given.append(argument["value"])
            continue
        if "bytes" in argument:
            given.append(bytes.fromhex(argument["bytes"]))
            continue
        word = next(word for word in WORDS if word in argument)
        kind, seed = argument[word], kernel.get("seed", 0) + index + 1
        data = launcher.filled(kind, launcher.length_of(argument), argument["fill"], argument.get("high"), seed, kernel.get("spread", False))
        if word in ("texture", "surface"):
            given.append(_sampled(machine, word, kind, argument, data))
            continue
        buffer = machine.alloc(max(len(data), 1))
        buffer.write(data)
        item = len(data) // launcher.length_of(argument)
        given.append(_map(argument, buffer) if word == "tensormap" else buffer)
        if argument.get("output"):
            outputs.append((index, item, argument.get("compare", "bits"), buffer, len(data)))
    return given, outputs


def _map(argument: dict[str, Any], buffer: Any) -> bytes:
    from ptxkit.machine import TensorMap

    made = TensorMap(tensor=buffer, box=argument["box"], shape=argument["shape"], type="." + argument["tensormap"].replace("i", "s"), swizzle=argument["swizzle"])
    return bytes(made.encoded(buffer.address))


def _sampled(machine: Any, word: str, kind: str, argument: dict[str, Any], data: bytes) -> Any:
    """A texture, unnormalized, clamped and not filtered, or a surface, of an array or of linear memory."""
    from ptxkit import machine as machines

    made = getattr(machines, word.title())
    array = np.frombuffer(data, {"f32": np.float32, "i32": np.int32, "u32": np.uint32}[kind])
    return made(array.reshape(argument["shape"]) if "shape" in argument else array)


def run(fixture: Fixture, kernel: dict[str, Any], schedule: str | int | None = None, text: str | None = None, budget: float | None = 120, loaded: dict[str, Any] | None = None) -> list[launcher.Output]:
    """What a launch leaves in its outputs. Raises Fault; AttributeError where the machine lacks textures. `loaded` keeps modules by text."""
    from ptxkit.machine import Machine

    machine = Machine(target=fixture.target)
    code = machine.load(text if text is not None else fixture.text)
    given, outputs = arguments(machine, kernel)
    machine.launch(
        code,
        kernel["entry"],
        *given,
        grid=kernel["grid"],
        block=kernel["block"],
        cluster=kernel.get("cluster"),
        shared=kernel.get("shared", 0),
        schedule=schedule,
        budget=budget,
    )
    return [launcher.Output(index, item, compare, buffer.read(np.uint8, (size,)).tobytes()) for index, item, compare, buffer, size in outputs]


def differences(record: Sequence[dict[str, Any]], found: Sequence[launcher.Output], exact: bool, tolerance: float = 2e-3) -> list[str]:
    """In which outputs the machine differs from the record, each compared as `launch.toml` says; floats of inexact launches within a bound."""
    import base64

    from launches import kept, sampled

    said = []
    for entry, output in zip(record, found, strict=True):
        if entry["compare"] == "none" or entry.get("varies") and entry["compare"] == "bits" and not exact:
            continue
        mine = kept(output)
        if entry["digest"] == mine["digest"]:
            continue
        word = "data" if "data" in entry else "sample"
        old, new = base64.b85decode(entry[word]), base64.b85decode(mine[word])
        item = entry["item"]
        before, after = ([data[at : at + item] for at in range(0, len(data), item)] for data in (old, new))
        if entry["compare"] == "sorted":
            before, after = sorted(before), sorted(after)
        wrong = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if not wrong and word == "sample":
            said.append(f"argument {entry['argument']}: the hash differs, none of {len(before)} elements sampled does")
        if wrong:
            places = sampled(entry["bytes"] // item) if word == "sample" else range(len(before))
            at = wrong[0]
            said.append(f"argument {entry['argument']}: {len(wrong)} of {len(before)} differ, [{list(places)[at]}] {before[at][::-1].hex()} on the GPU, {after[at][::-1].hex()} on the machine")
    return said


def near(record: Sequence[dict[str, Any]], found: Sequence[launcher.Output], kinds: Sequence[str], relative: float) -> bool:
    """Whether the floats of all outputs are within a relative error, or an absolute one of that times the largest element."""
    import base64

    from launches import kept

    for entry, output, kind in zip(record, found, kinds, strict=True):
        if entry["compare"] == "none":
            continue
        word = "data" if "data" in entry else "sample"
        old, new = base64.b85decode(entry[word]), base64.b85decode(kept(output)[word])
        if kind not in ("f16", "f32", "f64", "bf16"):
            if old != new:
                return False
            continue
        before, after = _floats(old, kind), _floats(new, kind)
        scale = np.maximum(np.abs(before), np.abs(before).max(initial=0) * 1e-3)
        if not bool(np.all(np.abs(before - after) <= relative * scale)):
            return False
    return True


def _floats(data: bytes, kind: str) -> Any:
    if kind == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(np.float64)


def kinds_of(kernel: dict[str, Any]) -> list[str]:
    """The element types of the outputs."""
    return [next(argument[word] for word in WORDS if word in argument) for argument in kernel["args"] if argument.get("output")]
