"""PTX of the Triton kernels of a package, without a GPU and without torch.

    python triton_kernels.py FOLDER PACKAGE TARGET…

What the package imports and is not there is a stand-in. What a kernel's parameters are is guessed by their names; where the guess does not
compile, the kernel is left out.
"""

import importlib
import importlib.abc
import importlib.machinery
import pkgutil
import signal
import sys
from pathlib import Path
from unittest.mock import MagicMock

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

ABSENT = ("torch", "transformers", "einops", "datasets", "peft", "numpy", "deepspeed", "megatron")


class Function:
    """Stands for `torch.autograd.Function` and the like, of which classes derive."""

    apply = None


class StandIn(MagicMock):
    __version__ = "2.8.0"
    Function = Function
    Module = Function
    Tensor = Function
    __path__ = []

    def __mro_entries__(self, bases):
        return (Function,)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec):
        return StandIn(name=spec.name)

    def exec_module(self, module):
        pass


def kernels(package):
    root = importlib.import_module(package)
    for found in pkgutil.walk_packages(root.__path__, package + "."):
        try:
            module = importlib.import_module(found.name)
        except BaseException:
            continue
        for name, thing in sorted(vars(module).items(), key=lambda one: one[0]):
            while not isinstance(thing, JITFunction) and hasattr(thing, "fn") and type(thing).__module__.startswith("triton"):
                thing = thing.fn
            if isinstance(thing, JITFunction) and thing.fn.__module__ == found.name:
                yield f"{found.name}.{name}", thing


def constant(name):
    low = name.lower()
    if low.startswith(("has_", "use_", "is_", "return_", "store_", "output_", "do_", "save_", "reverse", "causal", "head_first")):
        return "varlen" not in low and "cu_seqlen" not in low and low not in ("has_gradients_dy",)
    if low in ("bt", "bk", "bv", "bs", "bc", "bd", "bn", "bm", "bl"):
        return 32 if low in ("bc", "bs") else 64
    if "block" in low or low in ("k", "v", "d", "r", "n", "m", "head_dim", "hd", "pad_hd"):
        return 64
    if "dtype" in low:
        return tl.bfloat16
    if "eps" in low or "scale" in low:
        return 1e-6
    return 4


def kind(name):
    low = name.lower()
    if (
        low.endswith(("_stride", "_size", "_cols", "_rows"))
        or "stride" in low
        or low.startswith(("n_", "num_"))
        or name in ("T", "B", "H", "K", "V", "D", "N", "M", "S")
    ):
        return "i32"
    if low in (
        "eps",
        "scale",
        "offset",
        "alpha",
        "beta_",
        "temperature",
        "label_smoothing",
        "softcap",
        "lse_square_scale",
        "reduction_scale",
    ) or low.endswith(("_scale", "_eps")):
        return "fp32"
    if any(part in low for part in ("cu_seqlen", "offsets", "indices", "_idx", "index", "label_", "target")):
        return "*i32"
    if any(part in low for part in ("rstd", "mean", "lse", "loss")) or low in ("g", "m", "l", "z", "h0", "ht", "dg"):
        return "*fp32"
    return "*bf16"


def compiled(kernel, capability):
    constants, signature = {}, {}
    for parameter in kernel.params:
        if parameter.is_constexpr:
            constants[parameter.name], signature[parameter.name] = constant(parameter.name), "constexpr"
        else:
            signature[parameter.name] = kind(parameter.name)
    try:
        source = ASTSource(
            kernel, signature, constexprs={(i,): constants[p.name] for i, p in enumerate(kernel.params) if p.name in constants}
        )
    except TypeError:
        source = ASTSource(kernel, {p.num if hasattr(p, "num") else i: signature[p.name] for i, p in enumerate(kernel.params)}, constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4, "num_stages": 3}).asm["ptx"]


def expired(*_):
    raise TimeoutError


def main():
    out, package, *targets = sys.argv[1:]
    sys.meta_path.insert(0, Finder())
    signal.signal(signal.SIGPROF, expired)
    made = failed = 0
    for name, kernel in kernels(package):
        for target in targets:
            signal.setitimer(signal.ITIMER_PROF, 15)
            try:
                text = compiled(kernel, int(target))
            except BaseException as error:
                failed += 1
                print(name, type(error).__name__, str(error)[-150:].replace("\n", " "), file=sys.stderr)
                continue
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            (Path(out) / f"{name}.sm_{target}.ptx").write_text(text)
            made += 1
        if made >= 60:
            break
    print(f"{made} made, {failed} not", file=sys.stderr)


if __name__ == "__main__":
    main()
