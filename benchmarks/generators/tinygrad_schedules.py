"""PTX that tinygrad renders for some tensor programs, without a GPU.

python tinygrad_schedules.py FOLDER
"""

import sys
from pathlib import Path

from tinygrad import Tensor, dtypes
from tinygrad.renderer.ptx import PTXRenderer


def programs():
    for n in (1, 7, 64, 513, 4096):
        yield f"add_{n}", Tensor.empty(n) + Tensor.empty(n)
        yield f"sum_{n}", Tensor.empty(n).sum()
        yield f"softmax_{n}", Tensor.empty(33, n).softmax()
    for n in (16, 32, 64, 100, 256):
        yield f"matmul_{n}", Tensor.empty(n, n) @ Tensor.empty(n, n)
        yield f"half_matmul_{n}", Tensor.empty(n, n, dtype=dtypes.half) @ Tensor.empty(n, n, dtype=dtypes.half)
        yield f"layernorm_{n}", Tensor.empty(8, n).layernorm()
        yield f"argmax_{n}", Tensor.empty(n, 5).argmax(axis=0)
        yield f"cumsum_{n}", Tensor.empty(n).cumsum()
        yield f"transpose_{n}", Tensor.empty(n, n + 1).T.contiguous()
    for c in (3, 8, 16):
        yield f"conv_{c}", Tensor.empty(2, c, 28, 28).conv2d(Tensor.empty(8, c, 3, 3))
        yield f"maxpool_{c}", Tensor.empty(2, c, 28, 28).max_pool2d()
        yield f"batchnorm_{c}", Tensor.empty(4, c, 9, 9).batchnorm(None, None, Tensor.empty(c), Tensor.empty(c))
    for kind in (dtypes.int8, dtypes.uint16, dtypes.int64, dtypes.half, dtypes.float64, dtypes.bool):
        yield f"cast_{kind.name.replace(' ', '_')}", Tensor.empty(77, dtype=kind).cast(dtypes.float32).exp()
        yield f"sum_{kind.name.replace(' ', '_')}", Tensor.empty(300, 40, dtype=kind).sum(axis=1)
    yield "gather", Tensor.empty(50, 8).gather(0, Tensor.empty(10, 8, dtype=dtypes.int32))
    yield "attention", Tensor.empty(1, 2, 32, 16).scaled_dot_product_attention(Tensor.empty(1, 2, 32, 16), Tensor.empty(1, 2, 32, 16))
    yield "rand", Tensor.rand(100)
    yield "sort", Tensor.empty(20).sort()[0]


class Compiler:
    """Stands for ptxas."""

    def compile_cached(self, text):
        return b""


def renderer(target):
    """Versions of tinygrad say the target differently."""
    try:
        from tinygrad.helpers import Target

        made = PTXRenderer(Target(device="CUDA", arch=target))
        made.compiler = Compiler()
        return made
    except ImportError:
        return PTXRenderer(target, device="NV")


def named(text, target):
    """With the version and the target in it, as tinygrad puts them in before ptxas reads it."""
    return text.replace("TARGET", target).replace("VERSION", "7.8" if target >= "sm_89" else "7.5")


def kernels(tensor, ptx):
    """The texts of the kernels of a tensor's schedule; versions of tinygrad call the last step differently."""
    if hasattr(tensor, "schedule_linear"):
        programs = [call.src[0] for call in tensor.schedule_linear().src]
    else:
        programs = [item.ast for item in tensor.schedule()]
    for ast in programs:
        if "SINK" not in str(ast.op):
            continue
        try:
            from tinygrad.engine.realize import get_kernel

            yield get_kernel(ptx, ast).to_program().src
        except ImportError:
            try:
                from tinygrad.codegen import get_program

                yield get_program(ast, ptx).src
            except ImportError:
                from tinygrad.codegen import to_program

                yield next(one.arg for one in to_program(ast, ptx).src if "SOURCE" in str(one.op))


def main():
    out = Path(sys.argv[1])
    for target in ("sm_80", "sm_89"):
        for name, tensor in programs():
            try:
                for number, text in enumerate(kernels(tensor, renderer(target))):
                    (out / f"{name}.{number}.{target}.ptx").write_text(named(text, target))
            except Exception as error:
                print(name, type(error).__name__, error, file=sys.stderr)


if __name__ == "__main__":
    main()
