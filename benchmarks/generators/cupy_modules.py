"""PTX of the raw modules in CuPy's own packages, compiled by NVRTC for sm_86, without a GPU.

    python cupy_modules.py FOLDER

NVRTC and its headers are those of the packages nvidia-cuda-nvrtc, nvidia-cuda-runtime and nvidia-cuda-cccl.
"""

import ctypes
import importlib
import pkgutil
import sys
from pathlib import Path

import nvidia.cu13

HOME = next(iter(nvidia.cu13.__path__))
for library in ("libnvrtc-builtins.so.13.0", "libnvrtc.so.13"):
    ctypes.CDLL(f"{HOME}/lib/{library}", mode=ctypes.RTLD_GLOBAL)

import cupy  # noqa: E402
import cupyx  # noqa: E402
from cupy_backends.cuda.libs import nvrtc  # noqa: E402

RECORDED = []
WHERE = [""]


class Recorded:
    """Stands for `RawModule`: keeps the source instead of compiling it."""

    def __init__(self, code=None, options=(), name_expressions=None, **_):
        RECORDED.append((WHERE[0], code, tuple(options), tuple(name_expressions or ())))

    def __getattr__(self, name):
        return lambda *_, **__: self


def main():
    out = Path(sys.argv[1])
    cupy.RawModule = Recorded
    for found in pkgutil.walk_packages(cupyx.__path__, "cupyx.", onerror=lambda _: None):
        WHERE[0] = found.name
        try:
            importlib.import_module(found.name)
        except BaseException:
            continue
    folders = (str(Path(cupy.__file__).parent / "_core" / "include"), f"{HOME}/include", f"{HOME}/include/cccl")
    for number, (where, code, options, names) in enumerate(RECORDED, 1):
        program = nvrtc.createProgram(code, "a.cu", (), ())
        for name in names:
            nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, (*options, "-arch=compute_86", *[f"-I{folder}" for folder in folders]))
        (out / f"{where}.{number}.sm_86.ptx").write_bytes(nvrtc.getPTX(program).rstrip(b"\0"))


if __name__ == "__main__":
    main()
