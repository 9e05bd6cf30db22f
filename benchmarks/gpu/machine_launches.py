"""The fixtures' launches on the machine: the same arguments as on the GPU, and the outputs as the record has them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import launcher
import numpy as np
from outputs import digest_of, part, sampled
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
        data = launcher.filled(
            kind, launcher.length_of(argument), argument["fill"], argument.get("high"), seed, kernel.get("spread", False)
        )
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

    made = TensorMap(
        tensor=buffer,
        box=argument["box"],
        shape=argument["shape"],
        type="." + argument["tensormap"].replace("i", "s"),
        swizzle=argument["swizzle"],
    )
    return bytes(made.encoded(buffer.address))


def _sampled(machine: Any, word: str, kind: str, argument: dict[str, Any], data: bytes) -> Any:
    """A texture, unnormalized, clamped and not filtered, or a surface, of an array or of linear memory."""
    array = np.frombuffer(data, {"f32": np.float32, "i32": np.int32, "u32": np.uint32}[kind]).copy()
    if "shape" in argument:
        array = array.reshape(argument["shape"])
    return machine.texture(array) if word == "texture" else machine.surface(array)


def run(
    fixture: Fixture,
    kernel: dict[str, Any],
    schedule: str | int | None = None,
    text: str | None = None,
    budget: float | None = 120,
) -> list[launcher.Output]:
    """What a launch leaves in its outputs. Raises Fault."""
    return watched(fixture, kernel, schedule, text, budget, ())[0]


def watched(
    fixture: Fixture,
    kernel: dict[str, Any],
    schedule: str | int | None,
    text: str | None,
    budget: float | None,
    checks: str | Sequence[str],
    monitors: Sequence[Any] = (),
) -> tuple[list[launcher.Output], tuple[Any, ...]]:
    """What a launch leaves in its outputs, and what the checks find. Raises Fault."""
    from ptxkit.machine import Machine

    machine = Machine(target=fixture.target)
    code = machine.load(text if text is not None else fixture.text)
    given, outputs = arguments(machine, kernel)
    done = machine.launch(
        code,
        kernel["entry"],
        *given,
        grid=kernel["grid"],
        block=kernel["block"],
        cluster=kernel.get("cluster"),
        shared=kernel.get("shared", 0),
        schedule=schedule,
        budget=budget,
        checks=checks,
        monitors=monitors,
    )
    left = [
        launcher.Output(index, item, compare, buffer.read(np.uint8, (size,)).tobytes()) for index, item, compare, buffer, size in outputs
    ]
    return left, done.findings


def both(entry: dict[str, Any], output: launcher.Output) -> tuple[list[bytes], list[bytes]]:
    """The elements of an output that the record has, and the same of what the machine left; sorted where their order does not matter."""
    item = entry["item"]
    old = base64.b85decode(entry["data"] if "data" in entry else entry["sample"])
    before = [old[at : at + item] for at in range(0, len(old), item)]
    after = launcher.elements(output) if "data" in entry else part(output, len(before))
    return (sorted(before), sorted(after)) if entry["compare"] == "sorted" else (before, after)


def differences(record: Sequence[dict[str, Any]], found: Sequence[launcher.Output], exact: bool) -> list[str]:
    """In which outputs the machine differs from the record, each compared as `launch.toml` says."""
    said = []
    for entry, output in zip(record, found, strict=True):
        varies = entry.get("varies") and entry["compare"] == "bits" and not exact
        if entry["compare"] == "none" or varies or entry["digest"] == digest_of(output):
            continue
        before, after = both(entry, output)
        wrong = [at for at, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if not wrong and "data" in entry:
            continue
        if not wrong:
            said.append(f"argument {entry['argument']}: the hash differs, none of the {len(before)} elements kept does")
            continue
        at = wrong[0]
        place = at if "data" in entry else sampled(entry["bytes"] // entry["item"], len(before))[at]
        there, here = before[at][::-1].hex(), after[at][::-1].hex()
        said.append(
            f"argument {entry['argument']}: {len(wrong)} of {len(before)} differ, [{place}] {there} on the GPU, {here} on the machine"
        )
    return said


def near(record: Sequence[dict[str, Any]], found: Sequence[launcher.Output], kinds: Sequence[str], bounds: dict[str, float]) -> bool:
    """Whether the floats of all outputs are within a relative error, given by type, and all else is equal.

    Elements below the mean count as that large.
    """
    for entry, output, kind in zip(record, found, kinds, strict=True):
        if entry["compare"] == "none" or entry["digest"] == digest_of(output):
            continue
        if kind not in bounds:
            return False
        before, after = (_floats(b"".join(data), kind) for data in both(entry, output))
        with np.errstate(all="ignore"):
            mean = np.mean(np.abs(before[np.isfinite(before)])) if np.isfinite(before).any() else 0
            close = np.abs(before - after) <= bounds[kind] * np.maximum(np.abs(before), mean)
        if not ((before == after) | (np.isnan(before) & np.isnan(after)) | close).all():
            return False
    return True


def _floats(data: bytes, kind: str) -> Any:
    if kind == "bf16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]).astype(np.float64)


def kinds_of(kernel: dict[str, Any]) -> list[str]:
    """The element types of the outputs."""
    return [next(argument[word] for word in WORDS if word in argument) for argument in kernel["args"] if argument.get("output")]
