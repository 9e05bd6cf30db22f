"""PTX of TileLang's examples, without a GPU: the first kernel that each compiles, which is then given to nvcc.

    python tilelang_examples.py FOLDER ARCHITECTURE EXAMPLE…

Tensors stay on the CPU, and each example ends with its first kernel.
"""

import functools
import importlib
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import tilelang
import torch
from tilelang import tvm

FACTORIES = (
    "randn rand zeros ones empty tensor full arange randint randperm eye linspace empty_like zeros_like ones_like rand_like randn_like"
)
SECONDS = 40


class Done(BaseException):
    pass


def on_cpu(make):
    @functools.wraps(make)
    def made(*arguments, **options):
        return make(*arguments, **{name: one for name, one in options.items() if "cuda" not in str(one)})

    return made


def pretend():
    """Torch without CUDA looks like one with it."""
    for name in FACTORIES.split():
        setattr(torch, name, on_cpu(getattr(torch, name)))
    to = torch.Tensor.to
    torch.Tensor.cuda = lambda self, *_, **__: self
    torch.Tensor.to = lambda self, *given, **options: to(
        self, *[one for one in given if "cuda" not in str(one)] or [self.device], **options
    )
    torch.set_default_device = torch.cuda.set_device = torch.cuda.manual_seed = lambda *_: None
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_name = lambda *_: "NVIDIA H100"
    torch.cuda.get_device_properties = lambda *_: SimpleNamespace(
        name="NVIDIA H100", multi_processor_count=132, major=9, minor=0, warp_size=32, shared_memory_per_block_optin=232448
    )


def late(*_):
    raise Done


def main():
    out, architecture, *examples = sys.argv[1:]
    package = Path(tilelang.__path__[0])
    target = tvm.target.Target({"kind": "cuda", "arch": architecture})
    detectors = importlib.import_module("tilelang.backend.target")
    detectors._TARGET_DETECTORS.clear()
    detectors.register_target_detector("given", lambda: target)
    pretend()
    signal.signal(signal.SIGALRM, late)
    for path in map(Path, examples):
        source = Path(out) / f"{path.stem}.0.cu"

        def capture(_, function, *__, source=source, **___):
            with target:
                source.write_text(tilelang.lower(function, target=target).kernel_source)
            raise Done

        importlib.import_module("tilelang.jit.kernel").JITKernel._compile_and_create_adapter = capture
        sys.argv = [str(path)]
        sys.path.insert(0, str(path.parent))
        signal.alarm(SECONDS)
        try:
            names = runpy.run_path(str(path), run_name="example")
            names["main"]() if "main" in names else runpy.run_path(str(path), run_name="__main__")
        except BaseException as error:
            print(path.stem, repr(error)[:150], file=sys.stderr)
        signal.alarm(0)
        if source.is_file():
            include = [f"-I{package / 'src'}", f"-I{package / '3rdparty' / 'cutlass' / 'include'}"]
            ptx = source.with_suffix(f".{architecture}.ptx")
            subprocess.run(
                ["nvcc", "-w", "-ptx", f"-arch={architecture}", "-std=c++17", *include, str(source), "-o", str(ptx)], check=False
            )


if __name__ == "__main__":
    main()
