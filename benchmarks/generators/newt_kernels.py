"""PTX of small kernels in newt, a language like Triton's, by its generator of CUDA C++ and nvcc.

python newt_kernels.py FOLDER TARGET
"""

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

sys.modules["torch"] = MagicMock()  # only its tensors at launches are missed

import newt  # noqa: E402
import newt.language as nl  # noqa: E402
from newt.compiler import codegen  # noqa: E402
from newt.compiler import types as tp  # noqa: E402

WARPS = 4


@newt.jit
def softmax(x, out, n, BLOCK: nl.constexpr):
    row = nl.program_id(0)
    columns = nl.arange(0, BLOCK)
    one = nl.load(x + row * n + columns, mask=columns < n, other=-1e30)
    high = nl.max(one, axis=0)
    shifted = nl.exp(one - high)
    nl.store(out + row * n + columns, shifted / nl.sum(shifted, axis=0), mask=columns < n)


@newt.jit
def row_norm(x, weight, out, n, BLOCK: nl.constexpr):
    row = nl.program_id(0)
    columns = nl.arange(0, BLOCK)
    one = nl.load(x + row * n + columns, mask=columns < n, other=0.0)
    scale = nl.rsqrt(nl.sum(one * one, axis=0) / n + 1e-6)
    nl.store(out + row * n + columns, one * scale * nl.load(weight + columns, mask=columns < n, other=0.0), mask=columns < n)


@newt.jit
def product(a, b, c, m, n, k, BM: nl.constexpr, BN: nl.constexpr, BK: nl.constexpr):
    rows = nl.program_id(0) * BM + nl.arange(0, BM)
    columns = nl.program_id(1) * BN + nl.arange(0, BN)
    inner = nl.arange(0, BK)
    total = nl.zeros((BM, BN), dtype=nl.float32)
    for start in range(0, k, BK):
        left = nl.load(a + rows[:, None] * k + (start + inner)[None, :])
        right = nl.load(b + (start + inner)[:, None] * n + columns[None, :])
        total = nl.dot(left, right, total)
    nl.store(c + rows[:, None] * n + columns[None, :], total)


@newt.jit
def masked_product(a, b, c, m, n, k, BM: nl.constexpr, BN: nl.constexpr, BK: nl.constexpr):
    rows = nl.program_id(0) * BM + nl.arange(0, BM)
    columns = nl.program_id(1) * BN + nl.arange(0, BN)
    inner = nl.arange(0, BK)
    total = nl.zeros((BM, BN), dtype=nl.float32)
    for start in range(0, k, BK):
        place = start + inner
        left = nl.load(a + rows[:, None] * k + place[None, :], mask=(rows[:, None] < m) & (place[None, :] < k), other=0.0)
        right = nl.load(b + place[:, None] * n + columns[None, :], mask=(place[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = nl.dot(left, right, total)
    nl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@newt.jit
def transpose(x, out, m, n, BLOCK: nl.constexpr):
    rows = nl.program_id(0) * BLOCK + nl.arange(0, BLOCK)
    columns = nl.program_id(1) * BLOCK + nl.arange(0, BLOCK)
    tile = nl.load(x + rows[:, None] * n + columns[None, :], mask=(rows[:, None] < m) & (columns[None, :] < n), other=0.0)
    nl.store(out + columns[:, None] * m + rows[None, :], nl.trans(tile), mask=(columns[:, None] < n) & (rows[None, :] < m))


@newt.jit
def column_sums(x, out, m, n, BM: nl.constexpr, BN: nl.constexpr):
    columns = nl.program_id(0) * BN + nl.arange(0, BN)
    total = nl.zeros((BN,), dtype=nl.float32)
    for start in range(0, m, BM):
        rows = start + nl.arange(0, BM)
        tile = nl.load(x + rows[:, None] * n + columns[None, :], mask=(rows[:, None] < m) & (columns[None, :] < n), other=0.0)
        total = total + nl.sum(tile, axis=0)
    nl.store(out + columns, total, mask=columns < n)


@newt.jit
def attention(q, k, v, out, length, scale, BM: nl.constexpr, BN: nl.constexpr, D: nl.constexpr):
    rows = nl.program_id(0) * BM + nl.arange(0, BM)
    inner = nl.arange(0, D)
    query = nl.load(q + rows[:, None] * D + inner[None, :], mask=rows[:, None] < length, other=0.0)
    high = nl.full((BM,), -1e30, dtype=nl.float32)
    norm = nl.zeros((BM,), dtype=nl.float32)
    total = nl.zeros((BM, D), dtype=nl.float32)
    for start in range(0, length, BN):
        places = start + nl.arange(0, BN)
        key = nl.load(k + places[None, :] * D + inner[:, None], mask=places[None, :] < length, other=0.0)
        score = nl.dot(query, key) * scale
        score = nl.where(places[None, :] < length, score, -1e30)
        now = nl.maximum(high, nl.max(score, axis=1))
        weight = nl.exp(score - now[:, None])
        factor = nl.exp(high - now)
        norm = norm * factor + nl.sum(weight, axis=1)
        value = nl.load(v + places[:, None] * D + inner[None, :], mask=places[:, None] < length, other=0.0)
        total = total * factor[:, None] + nl.dot(nl.cast(weight, nl.float16), value)
        high = now
    nl.store(out + rows[:, None] * D + inner[None, :], total / norm[:, None], mask=rows[:, None] < length)


@newt.jit
def histogram(x, out, n, BLOCK: nl.constexpr):
    places = nl.program_id(0) * BLOCK + nl.arange(0, BLOCK)
    one = nl.load(x + places, mask=places < n, other=0)
    nl.atomic_add(out + one % 64, 1, mask=places < n)


F32, F16, I32 = (tp.pointer_type(one) for one in (tp.float32, tp.float16, tp.int32))
KINDS = {
    "softmax": (F32, F32, tp.int32),
    "row_norm": (F32, F32, F32, tp.int32),
    "product": (F16, F16, F32, tp.int32, tp.int32, tp.int32),
    "masked_product": (F16, F16, F32, tp.int32, tp.int32, tp.int32),
    "transpose": (F32, F32, tp.int32, tp.int32),
    "column_sums": (F32, F32, tp.int32, tp.int32),
    "attention": (F16, F16, F16, F32, tp.int32, tp.float32),
    "histogram": (I32, I32, tp.int32),
}
SIZES = {"BLOCK": 64, "BM": 64, "BN": 64, "BK": 32, "D": 64}


def main():
    out, target = Path(sys.argv[1]), sys.argv[2]
    for name, kinds in KINDS.items():
        kernel = globals()[name]
        runtime = [one for one in kernel.param_names if one not in kernel.constexpr_names]
        given = [(one, codegen.Value(codegen.UNIFORM, kind, (), one)) for one, kind in zip(runtime, kinds, strict=True)]
        sizes = {one: 512 if name in ("softmax", "row_norm", "histogram") else SIZES[one] for one in kernel.constexpr_names}
        try:
            text, _ = codegen.compile_fn(kernel.fndef, kernel.fn.__globals__, given, sizes, WARPS, name, num_stages=3)
        except Exception as error:
            print(name, repr(error)[:300], file=sys.stderr)
            continue
        source = out / f"{name}.cu"
        source.write_text(text)
        subprocess.run(["nvcc", "-ptx", f"-arch=sm_{target}", str(source), "-o", str(out / f"{name}.sm_{target}.ptx")], check=False)


if __name__ == "__main__":
    main()
