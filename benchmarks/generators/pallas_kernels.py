"""PTX of the kernels in jax.experimental.pallas.ops.gpu, without a GPU: JAX writes Triton's intermediate language, and Triton compiles it.

python pallas_kernels.py FOLDER            with jax and jax-cuda12-plugin 0.9.2: writes FOLDER/*.ttir
python pallas_kernels.py FOLDER compile    with triton 3.9.0: compiles them
"""

import re
import sys
from pathlib import Path


def cases():
    import jax
    import jax.numpy as jnp
    from jax.experimental.pallas.ops.gpu import attention, decode_attention, layer_norm, rms_norm, softmax

    def single(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float32)

    def half(*shape):
        return jax.ShapeDtypeStruct(shape, jnp.float16)

    def gradient(kernel):
        return jax.grad(lambda *given: kernel(*given).astype(jnp.float32).sum(), argnums=(0, 1, 2))

    rows = single(8, 384, 192), single(192), single(192)
    heads, cached = half(1, 384, 2, 64), (half(2, 1024, 64), half(2, 1024, 64))
    causal = gradient(lambda q, k, v: attention.mha(q, k, v, segment_ids=None, causal=True))
    return {
        "softmax": (softmax.softmax, (single(64, 1000),)),
        "layer_norm": (layer_norm.layer_norm, rows),
        "layer_norm_grad": (gradient(layer_norm.layer_norm), rows),
        "rms_norm": (rms_norm.rms_norm, rows),
        "rms_norm_grad": (gradient(rms_norm.rms_norm), rows),
        "mha": (lambda q, k, v: attention.mha(q, k, v, segment_ids=None), (half(2, 384, 2, 64),) * 3),
        "mha_causal_grad": (causal, (heads,) * 3),
        "decode_mqa": (decode_attention.mqa, (half(2, 8, 64), *cached)),
        "decode_gqa": (decode_attention.gqa, (half(2, 16, 64), half(2, 1024, 4, 64), half(2, 1024, 4, 64))),
    }


def lower(out):
    import jax
    from jax._src.interpreters import mlir
    from jax._src.lib import triton
    from jax._src.lib.mlir import ir

    for name, (kernel, given) in cases().items():
        text = jax.jit(kernel).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
        for number, found in enumerate(re.finditer(r'ir = "((?:[^"\\]|\\.)*)"', text)):
            code = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda one: bytes([int(one[1], 16)]), found[1].encode().replace(b"\\\\", b"\\5C"))
            rest = text[found.end() : found.end() + 400]
            options = [(re.search(rf"{word} = (\d+)", rest) or [0, default])[1] for word, default in (("num_warps", 4), ("num_stages", 3))]
            with mlir.make_ir_context() as context:
                triton.dialect.register_dialect(context)
                generic = ir.Module.parse(code).operation.get_asm(print_generic_op_form=True)
            (out / f"{name}.{number}.{options[0]}.{options[1]}.ttir").write_text(generic)


def compile_all(out):
    import triton
    from triton.backends.compiler import GPUTarget

    names = sorted({path.name.partition(".")[0] for path in out.glob("*.ttir")})
    for path in sorted(out.glob("*.ttir")):
        name, number, warps, stages, _ = path.name.split(".")
        capability = (90, 80)[names.index(name) % 2]
        options = {"num_warps": int(warps), "num_stages": int(stages)}
        made = triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options=options)
        (out / f"{name}.{number}.sm_{capability}.ptx").write_text(made.asm["ptx"])


if __name__ == "__main__":
    (compile_all if sys.argv[2:] == ["compile"] else lower)(Path(sys.argv[1]))
