"""PTX of the examples of pyptx, Ampere to Blackwell, without a GPU.

python pyptx_examples.py FOLDER
"""

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from unittest.mock import MagicMock

for absent in ("jax", "jax.numpy", "jax.experimental", "torch"):
    sys.modules.setdefault(absent, MagicMock())

SIZES = {
    "M": (256, 1024), "N": (256, 1024), "K": (256, 1024), "F": (1024, 2048), "B": (16, 128), "G": (4, 8), "S": (128, 256),
    "seq": (128, 256), "D": (64, 128), "H": (2, 4),
    "M_seq": (128, 256), "N_seq": (128, 256), "HEAD_DIM": (64, 64),
}  # fmt: skip


def kernels(module):
    from pyptx.kernel import Kernel

    for name, thing in sorted(vars(module).items()):
        if isinstance(thing, Kernel):
            yield name, thing
        elif inspect.isfunction(thing) and "build" in name and thing.__module__ == module.__name__:
            for choice in (0, 1):
                wanted = [
                    p.name for p in inspect.signature(thing).parameters.values() if p.default is p.empty and p.kind != p.VAR_POSITIONAL
                ]
                try:
                    made = thing(**{one: SIZES.get(one, (128, 256))[choice] for one in wanted if one not in ("args", "kwargs")})
                except BaseException as error:
                    print(name, type(error).__name__, str(error)[:100], file=sys.stderr)
                    continue
                made = made if isinstance(made, tuple) else (made,)
                yield from ((f"{name}.{choice}", one) for one in made if isinstance(one, Kernel))


def main():
    out = Path(sys.argv[1])
    import pyptx.examples

    for found in pkgutil.walk_packages(pyptx.examples.__path__, "pyptx.examples."):
        try:
            module = importlib.import_module(found.name)
        except BaseException as error:
            print(found.name, type(error).__name__, error, file=sys.stderr)
            continue
        for name, kernel in kernels(module):
            path = out / f"{found.name.removeprefix('pyptx.examples.')}.{name}.ptx"
            for sizes in ({}, {"M": 256, "N": 256, "K": 256}, {"B": 16, "N": 256}, {"M": 64, "F": 1024}):
                try:
                    path.write_text(kernel.ptx(**sizes))
                    break
                except BaseException as error:
                    last = error
            else:
                print(path.name, type(last).__name__, str(last)[:100], file=sys.stderr)


if __name__ == "__main__":
    main()
