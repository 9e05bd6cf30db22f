"""The child process in which kernels run: `python -m ptxkit.rewriters.profiling.worker`, driven by `isolation`.

Input: a line of JSON, then the two texts. Output: lines of JSON, each announcing the next stage or the result of one; a line with `bytes`
is followed by that many bytes. So the parent knows which kernel hangs or crashes the process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from typing import Any, BinaryIO

import attrs

from ptxkit.rewriters.manifest import ProbeManifest
from ptxkit.rewriters.profiling.array_files import BadFile
from ptxkit.rewriters.profiling.buffer import ProbeBuffer
from ptxkit.rewriters.profiling.comparison import differences
from ptxkit.rewriters.profiling.device import DeviceError, NoDevice, device_on
from ptxkit.rewriters.profiling.launch import Launch, from_json
from ptxkit.rewriters.profiling.memory import Memory


def main() -> None:
    """Handles one request and exits."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps the output of kernels out of the answers
    header = json.loads(sys.stdin.buffer.readline())
    if hasattr(signal, "alarm"):
        signal.alarm(int(header["timeout"]) + 10)  # in case the parent is killed and cannot end this process
    texts = [sys.stdin.buffer.read(size) for size in header["texts"]]
    speaker = _Speaker(out)
    try:
        Run(speaker, header, texts).all()
    except NoDevice as why:
        speaker.say(unavailable=str(why))
    except (OSError, BadFile, MemoryError, ValueError) as error:
        speaker.say(unavailable=str(error) or type(error).__name__)
    except DeviceError as error:
        speaker.say(failed=str(error), name=error.name, call=error.call)
    except Exception:
        speaker.say(unavailable=f"it failed in Python:\n{traceback.format_exc()}")
    os._exit(0)  # after a device error, freeing resources would fail too


class _Speaker:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def say(self, data: bytes | None = None, **what: Any) -> None:
        if data is not None:
            what["bytes"] = len(data)
        self._out.write(json.dumps(what).encode() + b"\n" + (data or b""))
        self._out.flush()


class Run:
    """A launch of the original, unless it is to be skipped, and one of the instrumented kernel, on the same input."""

    def __init__(self, speaker: _Speaker, header: dict[str, Any], texts: list[bytes]) -> None:
        self._speaker = speaker
        self._launch: Launch = from_json(header["launch"])
        self._manifest = ProbeManifest.from_json(header["manifest"])
        self._original, self._instrumented = texts
        self._repeat: int = header["repeat"]
        self._rows: int | None = header["rows"]
        self._with_original: bool = header["original"]
        self._on: str = header["on"]
        self._target: str = header["target"]

    def all(self) -> None:
        say, launch = self._speaker.say, self._launch
        say(stage="the driver")
        self._device = device = device_on(self._on, self._target)
        say(device=device.name, driver=device.driver, architecture=device.architecture, machine=device.is_machine)
        say(stage="the arrays")
        self._memory = memory = Memory(device, launch)
        before: list[bytes] = []
        original = None
        if self._with_original:
            say(stage="loading the original")
            original = device.function(device.load(self._original), launch.kernel)
            say(stage="running the original")
            before = self._run(original)
            self._say_registers(original, "original")
        say(stage="loading the instrumented kernel")
        module = device.load(self._instrumented)
        function = device.function(module, launch.kernel)
        self._say_registers(function, "instrumented")
        buffer = ProbeBuffer(
            device, self._manifest, lambda name: device.symbol(module, name), launch.grid, launch.block, memory.allocations, self._rows
        )
        buffer.reset()
        say(stage="running the instrumented kernel", allocations=buffer.layout.launch.allocations)
        try:
            after = self._run(function)
        except DeviceError:
            if self._manifest.pinned:
                say(buffer.read(), tables=True)
            raise
        say(buffer.read(), tables=True)
        if original is None:
            say(done=True)
            return
        found = differences(launch, before, after)
        if found:
            say(stage="running the original again")
            again = differences(launch, before, self._run(original))
            say(differences=[attrs.asdict(one) for one in found], repeatable=not again)
        if device.is_machine:
            say(done=True)
            return
        say(stage="taking the time")
        times: tuple[list[float], list[float]] = ([], [])
        for _ in range(self._repeat):
            times[0].append(self._timed(original))
            buffer.reset()
            times[1].append(self._timed(function))
        say(done=True, seconds=times)

    def _say_registers(self, function: Any, of: str) -> None:
        """Reports the registers of a kernel, if a compiler assigned them."""
        if not self._device.is_machine:
            self._speaker.say(registers=self._device.registers(function), of=of)

    def _run(self, function: Any) -> list[bytes]:
        self._memory.restore()
        self._start(function)
        self._device.synchronize()
        return self._memory.outputs()

    def _timed(self, function: Any) -> float:
        self._memory.restore()
        first = self._device.event()
        self._start(function)
        return self._device.seconds(first, self._device.event())

    def _start(self, function: Any) -> None:
        one = self._launch
        shape = {"shared": one.shared, "cluster": one.cluster, "cooperative": one.cooperative}
        self._device.launch(function, one.grid, one.block, self._memory.parameters, **shape)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
