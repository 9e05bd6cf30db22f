"""PTX of the Triton kernels of a package, without a GPU and without torch.

    python triton_kernels.py FOLDER PACKAGE TARGET… [most=N]

What the package imports and is not there is a stand-in, and statements of its modules that fail nonetheless are passed over. What a
kernel's parameters are is guessed by their names, and by what is loaded and stored; where the guess does not compile, the kernel is left
out.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import signal
import sys
import textwrap
from pathlib import Path
from unittest.mock import MagicMock

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction


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

    def __lt__(self, other):
        return False

    __gt__ = __le__ = __lt__

    def __ge__(self, other):
        return True


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: whatever no other finds is a stand-in, except modules of Triton and of `own`, the package itself."""

    def __init__(self, own):
        self.own = own, "triton"

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.own else importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(name=spec.name)

    def exec_module(self, module):
        pass


class Lenient(importlib.machinery.SourceFileLoader):
    """Executes a module statement by statement; one that fails is passed over, a function at first without decorators other than `jit`."""

    def exec_module(self, module):
        for statement in ast.parse(Path(self.path).read_text()).body:
            for attempt in range(2):
                if attempt and isinstance(statement, ast.FunctionDef):
                    statement.decorator_list = [one for one in statement.decorator_list if "jit" in ast.unparse(one)]
                try:
                    exec(compile(ast.Module([statement], []), self.path, "exec"), vars(module))
                    break
                except BaseException as error:
                    print(module.__name__, statement.lineno, repr(error)[:150], file=sys.stderr)


class Own(importlib.abc.MetaPathFinder):
    """Finds the modules of the package itself."""

    def __init__(self, own):
        self.own = own

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != self.own:
            return None
        for folder in path if path is not None else sys.path:
            place = Path(folder) / name.rpartition(".")[2]
            if (place / "__init__.py").is_file():
                file = str(place / "__init__.py")
                inside = {"submodule_search_locations": [str(place)]}
                return importlib.util.spec_from_file_location(name, file, loader=Lenient(name, file), **inside)
            if place.with_suffix(".py").is_file():
                file = str(place.with_suffix(".py"))
                return importlib.util.spec_from_file_location(name, file, loader=Lenient(name, file))
            if place.is_dir():
                spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
                spec.submodule_search_locations = [str(place)]
                return spec
        return None


def inner(root, prefix):
    """The modules of a package and of its subpackages."""
    for found in pkgutil.iter_modules(root.__path__, prefix):
        yield found
        if found.ispkg:
            yield from inner(importlib.import_module(found.name), found.name + ".")


def kernels(package):
    for found in inner(importlib.import_module(package), package + "."):
        try:
            module = importlib.import_module(found.name)
        except BaseException as error:
            print(found.name, repr(error)[:150], file=sys.stderr)
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


INDICES = "cu_seqlen", "offsets", "indices", "_idx", "index", "label_", "target"


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
    if any(part in low for part in INDICES):
        return "*i32"
    if any(part in low for part in ("rstd", "mean", "lse", "loss")) or low in ("g", "m", "l", "z", "h0", "ht", "dg"):
        return "*fp32"
    return "*bf16"


ELEMENTS = ("*bf16", tl.bfloat16), ("*fp16", tl.float16), ("*fp32", tl.float32)


def bases(kernel):
    """Names of the parameters that addresses of loads and stores start from."""
    tree = ast.parse(textwrap.dedent(kernel.src[kernel.src.index("def ") :]))
    starts = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and leftmost(node.value):
                starts.setdefault(target.id, set()).add(leftmost(node.value))
    calls = [call for call in ast.walk(tree) if isinstance(call, ast.Call)]
    memory = [call for call in calls if accesses(call)]
    found = {leftmost(one) for call in memory for one in [*call.args[:1], *[word.value for word in call.keywords if word.arg == "base"]]}
    found |= {leftmost(one) for call in calls for one in passed(call, kernel)}
    while True:
        more = found | {name for one in found for name in starts.get(one, ())}
        if more == found:
            return found
        found = more


def passed(call, kernel):
    """The arguments of a call of another of the package's functions that addresses start from in it."""
    callee = kernel.fn.__globals__.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(callee, JITFunction) or callee is kernel:
        return []
    names, based = [one.name for one in callee.params], bases(callee)
    given = [*zip(names, call.args, strict=False), *[(word.arg, word.value) for word in call.keywords]]
    return [value for name, value in given if name in based]


def ends(kernel):
    """Names of the parameters that ranges of elements end at."""
    tree = ast.parse(textwrap.dedent(kernel.src[kernel.src.index("def ") :]))
    ranges = [call for call in ast.walk(tree) if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "arange"]
    return {one.id for call in ranges for one in call.args[1:] if isinstance(one, ast.Name)}


def accesses(call):
    name = getattr(call.func, "attr", "")
    return name in ("load", "store", "make_block_ptr", "make_tensor_descriptor") or name.startswith("atomic_")


def leftmost(node):
    """The name that an address starts from; what a plain function returns starts from its first argument."""
    while isinstance(node, ast.BinOp | ast.Call | ast.Subscript):
        if isinstance(node, ast.BinOp):
            node = node.left
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            node = node.args[0] if node.args else node.func
    return node.id if isinstance(node, ast.Name) else ""


def kind_of(name, is_base):
    known = kind(name)
    if is_base or name.lower().endswith("ptr"):
        return known if known.startswith("*") else "*i32" if any(part in name.lower() for part in INDICES) else "*bf16"
    return "i32" if known.startswith("*") else known


OTHER = {"*bf16": "*i32", "*fp16": "*i32", "*fp32": "*i32", "*i32": "*fp32", "i32": "fp32", "fp32": "i32"}


def compiled(kernel, capability):
    """The PTX with the first type of elements that compiles, or where the error comes latest if single parameters have another type."""
    for elements in ELEMENTS:
        try:
            return compiled_for(kernel, capability, elements)
        except TimeoutError:
            raise
        except BaseException as error:
            last = error
    changes, reached = {}, line(last)
    names = [one.name for one in kernel.params if not one.is_constexpr]
    while True:
        furthest = None
        for name in names:
            try:
                return compiled_for(kernel, capability, ELEMENTS[0], {**changes, name: True})
            except TimeoutError:
                raise
            except BaseException as error:
                if line(error) > reached:
                    furthest, reached, last = name, line(error), error
        if furthest is None:
            raise last
        changes[furthest] = True
        names.remove(furthest)


def line(error):
    """The line that an error of the front end names; its cause is deeper if it is in a called function."""
    return getattr(getattr(error, "node", None), "lineno", 0)


def compiled_for(kernel, capability, elements, changes=()):
    constants, signature = {}, {}
    based, lengths = bases(kernel), ends(kernel)
    other, dtype = elements
    for parameter in kernel.params:
        if parameter.is_constexpr:
            given = constant(parameter.name) if parameter.name not in lengths else 64
            constants[parameter.name], signature[parameter.name] = dtype if given is tl.bfloat16 else given, "constexpr"
        else:
            guess = kind_of(parameter.name, parameter.name in based).replace("*bf16", other)
            signature[parameter.name] = OTHER[guess] if parameter.name in changes else guess
    try:
        source = ASTSource(
            kernel, signature, constexprs={(i,): constants[p.name] for i, p in enumerate(kernel.params) if p.name in constants}
        )
    except TypeError:
        # up to Triton 3.2 constants are by name, and no part of the signature
        source = ASTSource(kernel, {name: one for name, one in signature.items() if one != "constexpr"}, constants)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": 4, "num_stages": 3}).asm["ptx"]


def expired(*_):
    raise TimeoutError


def main():
    out, package, *rest = sys.argv[1:]
    targets = [one for one in rest if one.isdigit()]
    most = next((int(one[5:]) for one in rest if one.startswith("most=")), 60)
    own = package.partition(".")[0]
    sys.meta_path.insert(0, Own(own))
    sys.meta_path.append(Finder(own))
    signal.signal(signal.SIGPROF, expired)
    made = failed = 0
    for name, kernel in kernels(package):
        for target in targets:
            signal.setitimer(signal.ITIMER_PROF, 30)
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
        if made >= most:
            break
    print(f"{made} made, {failed} not", file=sys.stderr)


if __name__ == "__main__":
    main()
