"""Executes the launches of a launch file on the machine: without a GPU, with the same arguments; outputs as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxkit.frozen import frozen
from ptxkit.rewriters.profiling.comparison import compared
from ptxkit.rewriters.profiling.contents import of_array, of_scalar
from ptxkit.rewriters.profiling.launch import Array, Launch, Raw, Scalar


@frozen
class Execution:
    """The result of a launch: `outputs` are the bytes of the compared arrays, by index of the argument."""

    launch: Launch
    instructions: int
    seconds: float
    outputs: dict[int, bytes]
    printed: str = ""
    findings: tuple[Any, ...] = ()


def execute(
    machine: Any,
    code: Any,
    launch: Launch,
    *,
    schedule: str | int | None = None,
    budget: Any = None,
    monitors: tuple[Any, ...] = (),
    checks: tuple[str, ...] = (),
    progress: Callable[[Any], None] | None = None,
) -> Execution:
    """Executes a launch on a `ptxkit.machine.Machine`. Raises `Fault`; OSError or BadFile for array files."""
    arguments: list[Any] = []
    held: dict[int, bytearray] = {}
    for i in range(len(launch.arguments)):
        argument, data = made(launch, i)
        arguments.append(argument)
        if data is not None:
            held[i] = data
    run = machine.launch(
        code,
        launch.kernel,
        *arguments,
        grid=launch.grid,
        block=launch.block,
        cluster=launch.cluster,
        shared=launch.shared,
        schedule=schedule,
        budget=budget,
        monitors=monitors,
        checks=checks,
        progress=progress,
    )
    return Execution(launch, run.instructions, run.seconds, {i: bytes(held[i]) for i in compared(launch)}, run.output, run.findings)


def made(launch: Launch, number: int) -> tuple[Any, bytearray | None]:
    """An argument as the machine takes it, and, for an array, the bytes that the kernel may change. Raises OSError or BadFile."""
    argument = launch.arguments[number]
    if isinstance(argument, Raw):
        return argument.data, None
    if isinstance(argument, Scalar):
        return of_scalar(argument), None
    data = bytearray(of_array(argument, launch.seed_of(number)))
    return _given(argument, data), data


def _given(array: Array, data: bytearray) -> Any:
    """An array as the machine takes it."""
    if array.kind == "buffer":
        return memoryview(data)
    import numpy as np

    from ptxkit import machine

    names = {"bf16": "u2", **{f"{letter}{bits}": f"{letter}{bits // 8}" for letter in "iuf" for bits in (8, 16, 32, 64)}}
    values = np.frombuffer(data, names[array.type]).reshape(array.shape)
    if array.kind == "tensormap":
        return machine.TensorMap(tensor=values, box=array.box, swizzle=array.swizzle, **({"type": ".bf16"} if array.type == "bf16" else {}))
    if array.kind == "surface":
        return machine.Surface(array=values)
    return machine.Texture(array=values)
