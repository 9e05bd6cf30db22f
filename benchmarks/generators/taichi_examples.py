"""PTX of kernels in Taichi's own examples, on the machine in place of a GPU, which executes none of them.

    python taichi_examples.py FOLDER

Each example runs in a process of its own, in which Taichi writes what it compiles; its window is a stand-in. ptxkit must be installed.
"""

import re
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

EXAMPLES = (
    "simulation/mpm88", "simulation/nbody", "simulation/game_of_life", "simulation/waterwave", "simulation/fem99",
    "simulation/vortex_rings", "rendering/sdf_renderer", "algorithm/laplace", "algorithm/mgpcg", "simulation/pbf2d", "simulation/comet",
    "simulation/physarum",
)  # fmt: skip
LEAST_LINES = 60


class Window(MagicMock):
    """Stands for Taichi's window: it is open for two frames."""

    frames = 0

    @property
    def running(self):
        type(self).frames += 1
        return type(self).frames <= 2

    def get_event(self, *_):
        return False

    is_pressed = get_event

    def get_cursor_pos(self):
        return 0.5, 0.5

    def _get_child_mock(self, **options):
        return MagicMock(**options)


def run(example):
    """Executes one example; Taichi writes the PTX into the current folder."""
    import taichi

    from ptxkit.machine import driver
    from ptxkit.machine.driver import launching

    names = {
        name.decode()
        for path in (Path(taichi.__path__[0]) / "_lib" / "core").glob("*.so")
        for name in re.findall(rb"cu[A-Z][A-Za-z0-9_]{4,40}(?=\0)", path.read_bytes())
    }
    load, init = driver.library.load, taichi.init
    driver.SONAME, driver.has_bindings, launching._run = "libcuda.so", lambda: True, lambda _: None
    # Taichi wants every function that it may call to be there
    driver.library.load = lambda soname, known, address: load(soname, [*known, *sorted(names - set(known))], address)
    driver.install("sm_80")
    taichi.init = lambda *_, **__: init(taichi.cuda, print_kernel_asm=True, offline_cache=False, device_memory_GB=0.05)
    taichi.GUI = Window
    runpy.run_path(str(Path(taichi.__path__[0]) / "examples" / f"{example}.py"), run_name="__main__")


def main():
    out = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        run(sys.argv[2])
        return
    for example in EXAMPLES:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, str(Path(__file__).resolve()), str(out), example]
            subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
            for path in sorted(Path(folder).glob("taichi_kernel_nvptx_*.ptx")):
                text = path.read_bytes().replace(b"\0", b"")
                if text.count(b"\n") > LEAST_LINES:
                    number = path.stem.removeprefix("taichi_kernel_nvptx_")
                    (out / f"{Path(example).name}.{number}.ptx").write_bytes(text)


if __name__ == "__main__":
    main()
