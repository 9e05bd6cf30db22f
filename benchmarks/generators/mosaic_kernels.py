"""PTX of the kernels for Pallas's Mosaic GPU that come with JAX, without a GPU.

    python mosaic_kernels.py FOLDER

As in xla_functions.py, XLA compiles for a GPU that is described; Mosaic prints the PTX of each kernel. It remembers the GPU for which it
was first asked, so each has a process of its own.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

os.environ["MOSAIC_GPU_DUMP_PTX"] = "1"

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu import (
    attention_mgpu,
    blackwell_matmul_mgpu,
    blackwell_ragged_dot_mgpu,
    hopper_matmul_mgpu,
    hopper_mixed_type_matmul_mgpu,
    ragged_dot_mgpu,
    transposed_ragged_dot_mgpu,
)
from xla_functions import gpu

H, I4, I8 = jnp.float16, jnp.int32, jnp.int8
M = blackwell_matmul_mgpu.MatmulDimension.M


def hopper(*sizes, addend=False, **more):
    config = hopper_matmul_mgpu.TuningConfig(*sizes, **more)
    shapes = (H, 512, 256), (H, 256, 512), *[(H, 512, 512)] * addend
    return 9, lambda a, b, *c: hopper_matmul_mgpu.matmul(a, b, c[0] if addend else None, config), *shapes


def mixed(*sizes, **more):
    config = hopper_mixed_type_matmul_mgpu.TuningConfig(*sizes, **more)
    compute = hopper_mixed_type_matmul_mgpu.mixed_matmul_kernel
    return 9, lambda a, b: compute(a, b, out_dtype=H, config=config), (I8, 512, 256), (H, 256, 512)


def attention(*sizes, pipelined=False, backward=False, residuals=False, **more):
    config = attention_mgpu.TuningConfig(*sizes, **more)
    compute = attention_mgpu.attention_with_pipeline_emitter if pipelined else attention_mgpu.attention

    def forward(q, k, v):
        return compute(q, k, v, config, residuals)

    function = jax.grad(lambda *qkv: forward(*qkv).astype(jnp.float32).sum(), argnums=(0, 1, 2)) if backward else forward
    return 9, function, (H, 2, 512, 4, 64), (H, 2, 512, 2, 64), (H, 2, 512, 2, 64)


def blackwell(*sizes, **more):
    config = blackwell_matmul_mgpu.TuningConfig(*sizes, **more)
    return 10, lambda a, b: blackwell_matmul_mgpu.matmul_kernel(a, b, config), (H, 512, 256), (H, 256, 512)


def blackwell_ragged(*sizes):
    config = blackwell_ragged_dot_mgpu.TuningConfig(*sizes)
    return 10, lambda a, b, g: blackwell_ragged_dot_mgpu.ragged_dot_kernel(a, b, g, config), (H, 512, 256), (H, 4, 256, 512), (I4, 4)


def ragged(function, *shapes, **sizes):
    return 9, lambda a, b, g: function(a, b, group_sizes=g, **sizes), *shapes, (I4, 4)


SIZES = {"block_m": 64, "block_n": 64, "block_k": 64, "max_concurrent_steps": 2, "grid_block_n": 1}
BACKWARD = {"block_q_dkv": 64, "block_kv_dkv": 64, "block_q_dq": 64, "block_kv_dq": 64}
KERNELS = {
    "hopper_matmul": hopper(128, 128, 64, 4),
    "hopper_matmul_two_steps": hopper(128, 128, 64, 2),
    "hopper_matmul_64": hopper(64, 64, 64, 2),
    "hopper_matmul_minor_m": hopper(128, 128, 64, 3, grid_minor_dim=M),
    "hopper_matmul_rows": hopper(64, 128, 64, 4, wg_dimension=M),
    "hopper_matmul_cluster": hopper(128, 128, 64, 2, cluster_dimension=M),
    "hopper_matmul_no_tiles": hopper(64, 128, 64, 2, epi_tile_n=None, epi_tile_m=None),
    "hopper_matmul_add": hopper(64, 128, 64, 2, addend=True),
    "mixed_matmul": mixed(64, 128, 64, 4),
    "mixed_matmul_rows": mixed(64, 128, 64, 2, wg_dimension=M),
    "attention": attention(64, 64, 2),
    "attention_causal": attention(64, 64, 2, causal=True),
    "attention_unscheduled": attention(64, 128, 3, use_schedule_barrier=False),
    "attention_residuals": attention(64, 64, 2, residuals=True),
    "attention_pipelined": attention(64, 64, 2, pipelined=True),
    "attention_backward": attention(64, 64, 2, backward=True, **BACKWARD),
    "blackwell_matmul": blackwell(128, 128, 64, 2, False),
    "blackwell_matmul_pair": blackwell(128, 128, 64, 4, True),
    "blackwell_matmul_tall": blackwell(128, 64, 64, 3, False, grid_minor_dim=M),
    "blackwell_ragged_dot": blackwell_ragged(128, 128, 64, 2, False, 1, M),
    "blackwell_ragged_dot_pair": blackwell_ragged(128, 64, 64, 2, True, 1, M),
    "ragged_dot": ragged(ragged_dot_mgpu.ragged_dot, (H, 512, 256), (H, 4, 256, 512), **SIZES),
    "ragged_dot_transposed_right": ragged(ragged_dot_mgpu.ragged_dot, (H, 512, 256), (H, 4, 512, 256), transpose_rhs=True, **SIZES),
    "transposed_ragged_dot": ragged(transposed_ragged_dot_mgpu.transposed_ragged_dot, (H, 512, 256), (H, 512, 512), **SIZES),
}


def printed(function, arguments):
    """What Mosaic prints while a function is compiled."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(1), os.dup(2)
        try:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
            jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).compile()
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
        file.seek(0)
        return file.read().decode()


def main():
    out, *wanted = sys.argv[1:]
    if not wanted:
        for major in ("9", "10"):
            subprocess.run([sys.executable, __file__, out, major], check=False)
        return
    device = SimpleNamespace(core_count=132)
    for module in (hopper_matmul_mgpu, hopper_mixed_type_matmul_mgpu):
        module.backend = SimpleNamespace(get_default_device=lambda: device)
    jax.devices = jax.local_devices = lambda *_: [device]
    attention_mgpu.cuda_versions = SimpleNamespace(cuda_runtime_get_version=lambda: 13000)
    for name, (major, function, *shapes) in KERNELS.items():
        if str(major) not in wanted:
            continue
        place = gpu(major, 232448)
        arguments = [jax.ShapeDtypeStruct(shape, kind, sharding=place) for kind, *shape in shapes]
        try:
            text = printed(function, arguments)
        except Exception as error:
            print(name, repr(error)[:200], file=sys.stderr)
            continue
        for number, kernel in enumerate(re.findall(r"^// Generated by LLVM.*?^}\n(?!\s*\.visible)", text, re.MULTILINE | re.DOTALL)):
            # what follows is where the lines come from
            plain = re.sub(r"^\s*\.(?:loc|file)\s.*\n", "", kernel, flags=re.MULTILINE)
            (Path(out) / f"{name}.{number}.{re.search('sm_[0-9]+a?', plain)[0]}.ptx").write_text(plain)


if __name__ == "__main__":
    main()
