"""PTX that XLA's own emitters write for jitted functions of JAX, without a GPU.

    python xla_functions.py FOLDER

XLA compiles for the GPU that a text describes, and dumps what it gives to ptxas. Nothing is tuned, since nothing can be executed.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

DUMP = tempfile.mkdtemp()
os.environ["XLA_FLAGS"] = f"--xla_dump_to={DUMP} --xla_gpu_autotune_level=0"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import lax  # noqa: E402
from jax.experimental import topologies  # noqa: E402
from jax.sharding import SingleDeviceSharding  # noqa: E402

GPU = """
gpu_device_info {{
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: {shared}
  threads_per_core_limit: 2048 core_count: 108 fpus_per_core: 64 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 2039000000000 l2_cache_size: 41943040 clock_rate_ghz: 1.41
  device_memory_size: 84978434048 shared_memory_per_block_optin: {shared} cuda_compute_capability {{ major: {major} }}
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}}
platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 10 }} runtime_version {{ major: 12 minor: 9 }} device_description_str: "described"
"""


def gpu(major, shared):
    text = GPU.format(major=major, shared=shared)
    return SingleDeviceSharding(topologies.get_topology_desc("", "cuda", target_config=text, topology="1x1x1").devices[0])


def body(x):
    """A step of a loop on the device."""
    return lax.fori_loop(0, 10, lambda i, y: y + jnp.roll(y, 1) * i, x)


F, L, H, D, B = jnp.float32, jnp.int32, jnp.float16, jnp.float64, jnp.bool_
FUNCTIONS = {
    "softmax_rows": (lambda x: jax.nn.softmax(x), (F, 33, 1000)),
    "layernorm": (lambda x, g: jax.nn.standardize(x) * g, (F, 64, 768), (F, 768)),
    "row_sums": (lambda x: x.sum(1), (F, 100, 4097)),
    "row_sums_short": (lambda x: x.sum(1), (F, 5000, 7)),
    "column_sums": (lambda x: x.sum(0), (F, 4097, 100)),
    "column_maxima_half": (lambda x: x.max(0), (H, 1000, 65)),
    "sum_all": (lambda x: x.sum(), (F, 1000003)),
    "middle_sums": (lambda x: x.sum(1), (F, 17, 300, 40)),
    "argmax": (lambda x: jnp.argmax(x, 1), (F, 50, 3000)),
    "argmin_columns": (lambda x: jnp.argmin(x, 0), (F, 3000, 50)),
    "mean_and_variance": (lambda x: (x.mean(1), x.var(1)), (F, 128, 2048)),
    "any_row": (lambda x: (x > 0).any(1), (F, 128, 2048)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), (F, 12, 50257)),
    "transpose": (lambda x: x.T + 1, (F, 513, 129)),
    "transpose_021": (lambda x: jnp.transpose(x, (0, 2, 1)), (H, 9, 100, 70)),
    "transpose_210": (lambda x: jnp.transpose(x, (2, 1, 0)), (F, 33, 40, 65)),
    "transpose_and_sum": (lambda x: (x.T * 2, x.sum(0)), (F, 256, 512)),
    "transpose_bytes": (lambda x: x.T.copy(), (jnp.int8, 300, 500)),
    "cumsum": (lambda x: jnp.cumsum(x), (F, 5000)),
    "cumsum_rows": (lambda x: jnp.cumsum(x, 1), (F, 20, 300)),
    "cummax": (lambda x: lax.cummax(x), (F, 3000)),
    "sort": (lambda x: jnp.sort(x), (F, 1000)),
    "sort_rows": (lambda x: jnp.sort(x, 1), (L, 7, 300)),
    "argsort": (lambda x: jnp.argsort(x), (F, 5000)),
    "top_k": (lambda x: lax.top_k(x, 8), (F, 16, 1000)),
    "scatter_add": (lambda x, i, u: x.at[i].add(u), (F, 1000), (L, 300), (F, 300)),
    "scatter_set": (lambda x, i, u: x.at[i].set(u), (F, 1000, 8), (L, 300), (F, 300, 8)),
    "scatter_max_half": (lambda x, i, u: x.at[i].max(u), (H, 1000), (L, 300), (H, 300)),
    "scatter_add_bytes": (lambda x, i, u: x.at[i].add(u), (jnp.int8, 1000), (L, 300), (jnp.int8, 300)),
    "scatter_multiply": (lambda x, i, u: x.at[i].multiply(u), (D, 1000), (L, 300), (D, 300)),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 64), (F, 4000, 4), (L, 4000)),
    "bincount": (lambda i: jnp.bincount(i, length=256), (L, 10000)),
    "gather": (lambda x, i: x[i], (F, 1000, 64), (L, 77)),
    "embedding_gradient": (lambda t, i, g: jax.grad(lambda t: (t[i] * g).sum())(t), (F, 500, 64), (L, 77), (F, 77, 64)),
    "random_uniform": (lambda k: jax.random.uniform(jax.random.wrap_key_data(k), (1000,)), (jnp.uint32, 2)),
    "random_normal": (lambda k: jax.random.normal(jax.random.wrap_key_data(k), (33, 77)), (jnp.uint32, 2)),
    "permutation": (lambda k: jax.random.permutation(jax.random.wrap_key_data(k), 2000), (jnp.uint32, 2)),
    "max_pool": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"), (F, 2, 28, 28, 8)),
    "max_pool_gradient": (
        lambda x: jax.grad(lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") ** 2).sum())(x),
        (F, 2, 28, 28, 8),
    ),
    "matmul_small": (lambda a, b: a @ b, (F, 32, 48), (F, 48, 16)),
    "matmul_vector": (lambda a, b: a @ b, (F, 320, 480), (F, 480)),
    "matmul_half": (lambda a, b: jax.nn.relu(a @ b), (H, 256, 512), (H, 512, 128)),
    "attention": (lambda q, k, v: jax.nn.dot_product_attention(q, k, v), (H, 2, 64, 4, 32), (H, 2, 64, 4, 32), (H, 2, 64, 4, 32)),
    "while_loop": (body, (F, 300)),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i,), (100,)), (F, 1000), (L,)),
    "dynamic_update": (lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 0)), (F, 1000, 8), (F, 10, 8), (L,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y * 2], 1), (F, 30, 50), (F, 30, 71)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (3, 0))), (F, 30, 50)),
    "select": (lambda x, y: jnp.where(x > y, jnp.sin(x), y**3), (D, 777), (D, 777)),
    "complex_product": (lambda x, y: jnp.exp(x) * y, (jnp.complex64, 777), (jnp.complex64, 777)),
    "bits": (lambda x: lax.population_count(x) + lax.clz(x), (L, 777)),
    "bfloat_sum": (lambda x: x.sum(1), (jnp.bfloat16, 65, 1500)),
    "bool_sum": (lambda x: x.sum(), (B, 99999)),
    "histogram": (lambda x: jnp.histogram(x, 10)[0], (F, 5000)),
    "unique": (lambda x: jnp.unique(x, size=50), (L, 500)),
    "cholesky_step": (lambda a: jnp.tril(a - jnp.outer(a[:, 0], a[:, 0])), (F, 64, 64)),
    "convolve": (lambda x, y: jnp.convolve(x, y), (F, 500), (F, 7)),
    "lstm_step": (lambda h, w: jax.nn.sigmoid(h @ w) * jnp.tanh(h @ w), (F, 16, 64), (F, 64, 64)),
    "searchsorted": (lambda a, v: jnp.searchsorted(a, v), (F, 1000), (F, 77)),
    "rms_gradient": (lambda x: jax.grad(lambda x: (x * lax.rsqrt((x**2).mean(1, keepdims=True) + 1e-6)).sum())(x), (F, 40, 640)),
}


def main():
    out = Path(sys.argv[1])
    jax.config.update("jax_enable_x64", True)
    for number, (name, (function, *shapes)) in enumerate(FUNCTIONS.items()):
        major, shared = ((9, 232448), (8, 166912), (10, 232448))[number % 3]
        place = gpu(major, shared)
        function.__name__ = name
        arguments = [jax.ShapeDtypeStruct(shape, kind, sharding=place) for kind, *shape in shapes]
        try:
            jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).compile()
        except Exception as error:
            print(name, repr(error)[:150], file=sys.stderr)
    for path in sorted(Path(DUMP).glob("*.ptx")):
        name = re.sub(r"^module_\d+\.jit_|\.ptx$", "", path.name)
        text = path.read_text()
        target = re.search(r"\.target (\w+)", text)[1]
        (out / f"{name}.{target}.ptx").write_text(text)


if __name__ == "__main__":
    main()
