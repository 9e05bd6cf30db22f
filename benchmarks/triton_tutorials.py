"""Triton's tutorials on the machine: `python benchmarks/triton_tutorials.py FOLDER [--target 80 90 100] [--only 03 06]`.

FOLDER is `python/tutorials` of a checkout of Triton that fits the installed one; torch may be a CPU build. The files are executed as they
are, but for their benchmarks, for some sizes and for the device, which is `cpu`; what they compute is compared with torch. A process for
each; a line for each case.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ptxkit.machine import triton as on_machine

MULTIPROCESSORS = 4
"""So few, that persistent kernels have several tiles each."""


class _NoBenchmark:
    def __init__(self, function: Any) -> None:
        self.function = function

    def run(self, **_: Any) -> None:
        return None

    def __call__(self, *given: Any, **options: Any) -> Any:
        return self.function(*given, **options)


def prepare(architecture: int) -> Any:
    """Makes the machine Triton's GPU, and torch answer for it. Returns torch."""
    import torch
    import triton
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
            options = dict(options or {})
            if str(options.get("device", "")).startswith("cuda"):
                options["device"] = "cpu"
            return function(*arguments, **options)

    on_machine.activate(architecture, everywhere=True)
    driver = triton.runtime.driver.active
    properties = driver.get_device_properties
    driver.get_device_properties = lambda device: properties(device) | {"multiprocessor_count": MULTIPROCESSORS}
    OnCpu().__enter__()
    torch.cuda.get_device_capability = lambda *_: divmod(architecture, 10)
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(multi_processor_count=MULTIPROCESSORS)
    torch.cuda.is_available = lambda: False
    triton.testing.perf_report = lambda _: _NoBenchmark
    autotuner = triton.runtime.autotuner.Autotuner
    pruned = autotuner.prune_configs
    autotuner.prune_configs = lambda self, values: pruned(self, values)[:1]
    torch.manual_seed(0)
    return torch


def executed(path: Path, shorter: dict[str, str] | None = None) -> ModuleType:
    """A tutorial as a module. `shorter` replaces texts of it: sizes."""
    source = path.read_text()
    for old, new in (shorter or {}).items():
        if old not in source:
            raise LookupError(f"{path.name} has no {old!r}")
        source = source.replace(old, new)
    copy = Path("/tmp") / f"ptxkit_{path.stem.replace('-', '_')}.py"
    copy.write_text(source)
    spec = importlib.util.spec_from_file_location(copy.stem, copy)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[copy.stem] = module
    spec.loader.exec_module(module)
    return module


Case = tuple[str, Callable[[], bool]]


def vector_add(path: Path, torch: Any, _: int) -> Iterator[Case]:
    module = executed(path)
    x, y = torch.rand(5000), torch.rand(5000)
    yield "vector add", lambda: torch.equal(module.add(x, y), x + y)


def softmax(path: Path, torch: Any, _: int) -> Iterator[Case]:
    module = executed(path, {"torch.randn(1823, 781": "torch.randn(61, 781"})
    x = torch.randn(33, 300)
    yield "softmax", lambda: torch.allclose(module.softmax(x), torch.softmax(x, 1), atol=1e-6)


def matmul(path: Path, torch: Any, _: int) -> Iterator[Case]:
    module = executed(path, {"512, 512": "128, 128"})
    a, b = torch.randn(256, 192).half(), torch.randn(192, 128).half()
    yield "matmul", lambda: torch.allclose(module.matmul(a, b).float(), a.float() @ b.float(), atol=5e-2, rtol=1e-2)
    yield (
        "matmul, leaky ReLU",
        lambda: torch.allclose(
            module.matmul(a, b, "leaky_relu").float(), torch.nn.functional.leaky_relu(a.float() @ b.float(), 0.01), atol=5e-2, rtol=1e-2
        ),
    )


def dropout(path: Path, torch: Any, _: int) -> Iterator[Case]:
    module = executed(path)
    x = torch.randn(5000)

    def works() -> bool:
        one, same, other = (module.seeded_dropout(x, p=0.5, seed=seed) for seed in (123, 123, 512))
        kept = one != 0
        return (
            torch.equal(one, same)
            and not torch.equal(one, other)
            and torch.allclose(one[kept], x[kept] * 2)
            and abs(float(kept.float().mean()) - 0.5) < 0.05
        )

    yield "dropout, seeded", works


def layer_norm(path: Path, torch: Any, _: int) -> Iterator[Case]:
    executed(path, {"test_layer_norm(1151, 8192": "test_layer_norm(67, 1024"})
    yield "layer norm, forward and backward", lambda: True  # the tutorial asserts it


def attention(path: Path, torch: Any, architecture: int) -> Iterator[Case]:
    module = executed(path)
    for causal in (False, True):
        # the tutorial's own test compares the forward pass too when it is asked for the backward one
        for mode, kind in (("bwd", "fp16"), ("fwd", "fp8")):
            name = f"fused attention, {'causal, ' if causal else ''}{'forward and backward' if mode == 'bwd' else 'forward, fp8'}"

            def works(causal: bool = causal, mode: str = mode, kind: str = kind) -> bool:
                return module.test_op(1, 2, 256, 64, causal, False, mode, f"triton-{kind}") is None

            yield name, works


def grouped(path: Path, torch: Any, _: int) -> Iterator[Case]:
    executed(path, {"[1024, 512, 256, 128]": "[256, 128, 128, 256]"} if "[1024, 512, 256, 128]" in path.read_text() else {})
    yield "grouped gemm", lambda: True  # the tutorial asserts it


def persistent(path: Path, torch: Any, architecture: int) -> Iterator[Case]:
    module = executed(path, {"if is_cuda():\n": "if False:\n", "elif is_hip():\n": "elif False:\n"})
    a, b = torch.randn(512, 256).half(), torch.randn(384, 256).half()
    wanted = a.float() @ b.float().T
    names = {"matmul": b.T, "matmul_persistent": b.T}
    if architecture >= 90:
        names |= {"matmul_tma": b, "matmul_tma_persistent": b, "matmul_descriptor_persistent": b}
    for name, other in names.items():
        options = (False,) if "tma" in name or "descriptor" in name else ()

        def works(name: str = name, other: Any = other, options: Any = options) -> bool:
            return bool(torch.allclose(getattr(module, name)(a, other, *options).float(), wanted, atol=5e-2, rtol=1e-2))

        yield name, works


def block_scaled(path: Path, torch: Any, architecture: int) -> Iterator[Case]:
    module = executed(path, {"cublas = nvidia.cublas.CublasLt(cublas_workspace)": "cublas = None"})
    for format_ in ("mxfp4", "nvfp4", "mxfp8", "mixed"):

        def works(format_: str = format_) -> bool:
            return module.validate_block_scaled(256, 256, 256, block_scale_type=format_) is None

        yield f"block scaled, {format_}", works


TUTORIALS: dict[str, Any] = {
    "01": vector_add,
    "02": softmax,
    "03": matmul,
    "04": dropout,
    "05": layer_norm,
    "06": attention,
    "08": grouped,
    "09": persistent,
    "10": block_scaled,
}


def run_one(folder: Path, number: str, architecture: int) -> int:
    """Executes a tutorial; prints a line for each of its cases. Returns how many are not right."""
    torch = prepare(architecture)
    (path,) = folder.glob(f"{number}-*.py")
    wrong, start = 0, time.perf_counter()
    cases = TUTORIALS[number](path, torch, architecture)
    while True:
        name = number
        try:
            name, works = next(cases)
            right, why = works(), ""
        except StopIteration:
            return wrong
        except Exception as error:
            right, why = False, f" {type(error).__name__}: {re.sub(chr(10), ' ', str(error))[:200]}"
        wrong += not right
        print(
            f"RESULT {number} sm_{architecture} {name}: {'right' if right else 'WRONG'}{why} {time.perf_counter() - start:.1f} s",
            flush=True,
        )
        start = time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--target", type=int, nargs="+", default=[80, 90, 100])
    parser.add_argument("--only", nargs="+", default=sorted(TUTORIALS))
    parser.add_argument("--here", action="store_true", help="in this process, everything it prints")
    given = parser.parse_args()
    if given.here:
        sys.exit(run_one(given.folder, given.only[0], given.target[0]))
    for target in given.target:
        for number in given.only:
            command = [sys.executable, __file__, str(given.folder), "--target", str(target), "--only", number, "--here"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
            print("\n".join(lines) or f"RESULT {number} sm_{target}: WRONG, exit {done.returncode} {done.stderr[-300:]}", flush=True)


if __name__ == "__main__":
    main()
