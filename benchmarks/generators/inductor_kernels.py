"""PTX of the Triton kernels that torch's inductor generates for some functions, without a GPU.

    python inductor_kernels.py FOLDER

Inductor is told of a GPU; functions are traced with tensors that have no contents. Each kernel is compiled with the first configuration
that inductor would try.
"""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as nn
import triton
from torch._dynamo.device_interface import CudaInterface
from torch._inductor import config
from torch._inductor.debug import DebugContext
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.driver import driver

CAPABILITY = 90


class Driver:
    """Stands for Triton's driver."""

    def get_current_target(self):
        return GPUTarget("cuda", CAPABILITY, 32)

    def get_current_device(self):
        return 0

    def __getattr__(self, _):
        return lambda *_, **__: None


def pretend():
    """There is a GPU."""
    properties = SimpleNamespace(
        type="cuda", index=0, cc=CAPABILITY, major=9, minor=0, multi_processor_count=132, max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536, warp_size=32, total_memory=80 << 30, name="GPU", gcnArchName="", max_threads_per_block=1024,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    )  # fmt: skip
    known = {"is_available": True, "current_device": 0, "get_device_properties": properties, "get_compute_capability": CAPABILITY}
    cuda = {
        **known,
        "device_count": 1,
        "get_device_capability": (9, 0),
        "get_device_name": "GPU",
        "_lazy_init": None,
        "is_initialized": True,
    }
    for place, names in ((torch.cuda, cuda), (CudaInterface, known), (CudaInterface.Worker, known)):
        for name, value in names.items():
            setattr(place, name, staticmethod(lambda *_, value=value, **__: value))
    torch.version.cuda = "12.8"
    driver.set_active(Driver())
    triton_helpers.set_driver_to_gpu = lambda: None
    triton_heuristics.CachingAutotuner.precompile = lambda *_, **__: None
    config.compile_threads = 1
    config.triton.unique_kernel_names = True


def wrapper(function, shapes):
    """The module that inductor writes for a function."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        arguments = [torch.empty(shape, dtype=kind, device="cuda") for kind, *shape in shapes]
        module = make_fx(function, decomposition_table=select_decomp_table())(*arguments)
        with V.set_fake_mode(mode):
            graph = GraphLowering(module, example_inputs=arguments, shape_env=mode.shape_env)
            with V.set_graph_handler(graph), V.set_debug_handler(DebugContext()):
                graph.run(*arguments)
                return graph.codegen()[0].value


def compiled(name, text, folder):
    """The PTX of one kernel of such a module."""
    path = folder / f"{name}.py"
    path.write_text(text)
    names = {"__file__": str(path), "__name__": name}
    exec(compile(text, str(path), "exec"), names)
    tuner = names[name]
    first = tuner.configs[0]
    meta = tuner.triton_meta
    constants = {**meta["constants"], **first.kwargs}
    signature = {key: "constexpr" if key in constants else kind for key, kind in meta["signature"].items()}
    source = ASTSource(
        tuner.fn, signature, {(tuner.fn.arg_names.index(key),): value for key, value in constants.items()}, meta["configs"][0]
    )
    options = {"num_warps": first.num_warps, "num_stages": first.num_stages}
    return triton.compile(source, target=driver.active.get_current_target(), options=options).asm["ptx"]


def gelu_layernorm(x, w, b):
    return nn.layer_norm(nn.gelu(x), x.shape[-1:], w, b)


def rotary(x, c, s):
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, a * s + b * c), -1)


def adam(p, g, m, v):
    m = 0.9 * m + 0.1 * g
    v = 0.99 * v + 0.01 * g * g
    return p - 0.001 * m / (v.sqrt() + 1e-8), m, v


F, H, B, L, D = torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.float64
FUNCTIONS = {
    "softmax": (lambda x: x.softmax(-1), (F, 33, 1000)),
    "softmax_long": (lambda x: x.softmax(-1), (B, 64, 50257)),
    "log_softmax_columns": (lambda x: x.log_softmax(0), (F, 700, 90)),
    "layernorm": (gelu_layernorm, (F, 128, 768), (F, 768), (F, 768)),
    "layernorm_half": (gelu_layernorm, (H, 512, 5120), (H, 5120), (H, 5120)),
    "group_norm": (lambda x: nn.group_norm(x, 8), (F, 4, 64, 14, 14)),
    "batch_norm": (lambda x: (x.mean((0, 2, 3)), x.var((0, 2, 3))), (F, 8, 64, 28, 28)),
    "rms_norm": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, (B, 300, 4096), (B, 4096)),
    "row_sums": (lambda x: x.sum(1), (F, 100, 4097)),
    "column_sums": (lambda x: x.sum(0), (F, 4097, 100)),
    "column_sums_many": (lambda x: x.sum(0), (H, 100000, 20)),
    "sum_all": (lambda x: x.sum(), (F, 1000003)),
    "mean_middle": (lambda x: x.mean(1), (F, 17, 300, 40)),
    "argmax": (lambda x: x.argmax(1), (F, 50, 3000)),
    "maximum_with_index": (lambda x: x.max(0), (F, 3000, 50)),
    "any": (lambda x: (x > 0).any(), (F, 99999)),
    "product": (lambda x: x.prod(1), (D, 30, 77)),
    "variance": (lambda x: x.var(1), (F, 40, 10000)),
    "cumsum": (lambda x: x.cumsum(0), (F, 5000)),
    "cumsum_rows": (lambda x: x.cumsum(1), (F, 20, 300)),
    "cumulative_product": (lambda x: x.cumprod(1), (F, 20, 3000)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (F, 20, 300)),
    "sort": (lambda x: x.sort(1), (F, 20, 200)),
    "transpose": (lambda x: x.t().contiguous() + 1, (F, 513, 129)),
    "permute": (lambda x: x.permute(0, 2, 3, 1).contiguous().relu(), (H, 4, 64, 27, 27)),
    "transpose_and_add": (lambda x, y: x.t() + y, (F, 300, 200), (F, 200, 300)),
    "embedding": (lambda w, i: nn.embedding(i, w), (F, 1000, 64), (L, 77)),
    "embedding_backward": (lambda g, i: torch.zeros(1000, 64, device="cuda").index_add(0, i, g), (F, 77, 64), (L, 77)),
    "index_put": (lambda x, i, u: torch.ops.aten.index_put(x, [i], u), (F, 1000), (L, 300), (F, 300)),
    "index_put_accumulate": (lambda x, i, u: torch.ops.aten.index_put(x, [i], u, True), (F, 1000), (L, 300), (F, 300)),
    "scatter_add": (lambda x, i, u: x.scatter_add(0, i, u), (F, 1000), (L, 300), (F, 300)),
    "scatter_reduce_half": (lambda x, i, u: x.scatter_add(1, i, u), (H, 10, 100), (L, 10, 30), (H, 10, 30)),
    "gather": (lambda x, i: x.gather(1, i), (F, 50, 100), (L, 50, 20)),
    "cross_entropy": (lambda x, t: nn.cross_entropy(x, t), (F, 64, 1000), (L, 64)),
    "bce": (lambda x, t: nn.binary_cross_entropy_with_logits(x, t), (F, 5000), (F, 5000)),
    "dropout": (lambda x: nn.dropout(x, 0.1), (F, 777)),
    "random": (lambda x: torch.rand_like(x) + x, (F, 1000)),
    "max_pool": (lambda x: nn.max_pool2d(x, 3, 2, 1), (F, 2, 8, 28, 28)),
    "average_pool": (lambda x: nn.avg_pool2d(x, 2), (F, 2, 8, 28, 28)),
    "adaptive_pool": (lambda x: nn.adaptive_avg_pool2d(x, 1), (H, 2, 512, 7, 7)),
    "interpolate": (lambda x: nn.interpolate(x, scale_factor=2.0, mode="bilinear"), (F, 2, 3, 20, 20)),
    "upsample_nearest": (lambda x: nn.interpolate(x, scale_factor=2.0), (F, 2, 3, 20, 20)),
    "concatenate": (lambda x, y: torch.cat((x, y.relu()), 1), (F, 30, 50), (F, 30, 71)),
    "stack": (lambda x, y: torch.stack((x, y), -1), (F, 777), (F, 777)),
    "pad": (lambda x: nn.pad(x, (1, 2, 3, 0), mode="reflect"), (F, 2, 30, 50)),
    "rotary": (rotary, (H, 2, 100, 8, 64), (H, 100, 1, 32), (H, 100, 1, 32)),
    "swiglu": (lambda x, y: nn.silu(x) * y, (B, 300, 1100), (B, 300, 1100)),
    "adam": (adam, *[(F, 10001)] * 4),
    "where": (lambda x, y: torch.where(x > y, x.sin(), y.pow(3)), (D, 777), (D, 777)),
    "bits": (lambda x: (x >> 3) & 7 ^ x, (torch.int32, 777)),
    "bucketize": (lambda x, b: torch.bucketize(x, b), (F, 777), (F, 100)),
    "norms": (lambda x: (x.abs().amax(1), x.norm(dim=1), x.amin(1)), (F, 60, 900)),
    "masked_softmax": (lambda x, m: x.masked_fill(m, float("-inf")).softmax(-1), (H, 8, 128, 128), (torch.bool, 128, 128)),
    "two_reductions": (lambda x: (x.sum(0), x.sum(1)), (F, 600, 800)),
    "outer": (lambda x, y: (x[:, None] * y).sum(1), (F, 600), (F, 800)),
    "bmm_small": (lambda x, y: (x[:, :, :, None] * y[:, None]).sum(2), (F, 4, 16, 8), (F, 4, 8, 16)),
    "quantize": (lambda x: (x / (x.abs().amax(1, keepdim=True) / 127)).round().to(torch.int8), (F, 60, 900)),
}


def main():
    out = Path(sys.argv[1])
    pretend()
    for name, (function, *shapes) in FUNCTIONS.items():
        try:
            text = wrapper(function, shapes)
            for kernel, source in re.findall(r"^(\w+) = async_compile\.triton\('\w+', '''(.*?)'''", text, re.MULTILINE | re.DOTALL):
                (out / f"{name}.{kernel}.sm_{CAPABILITY}.ptx").write_text(compiled(kernel, source, out))
        except Exception as error:
            print(name, repr(error)[:200], file=sys.stderr)


if __name__ == "__main__":
    main()
