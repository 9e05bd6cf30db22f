"""Products of Triton on the machine against NumPy, without torch: `python benchmarks/triton_dots.py [--target 90 100] [--schedule late]`.

Each kernel is compiled by the installed Triton for each target: chains of products (the second takes its left factor from tensor memory on
sm_100) in CTAs that iterate differently often; products with block scales; a group of products of which kernels find the addresses in
memory, by tensor maps made on the device. A line for each; the exit code is 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ptxkit.machine.triton import launch

Array = np.ndarray[Any, Any]
FOURS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
"""The values of e2m1 by their codes."""
random = np.random.default_rng(1)


@triton.jit  # type: ignore[untyped-decorator]
def chain(a_ptr, b_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr, LENGTH: tl.constexpr):  # type: ignore[no-untyped-def]
    pid = tl.program_id(0)
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    a = tl.load(a_ptr + pid * M * D + m[:, None] * D + d[None, :])
    total = tl.zeros((M, D), dtype=tl.float32)
    for start in range(pid * N, LENGTH, N):
        b = tl.load(b_ptr + pid * LENGTH * D + (start + n)[:, None] * D + d[None, :])
        total += tl.dot((tl.dot(a, tl.trans(b)) * 0.125).to(tl.float16), b)
    tl.store(out_ptr + pid * M * D + m[:, None] * D + d[None, :], total)


@triton.jit  # type: ignore[untyped-decorator]
def scaled(  # type: ignore[no-untyped-def]
    a_ptr, a_scales, b_ptr, b_scales, out_ptr,
    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr, LEFT: tl.constexpr, RIGHT: tl.constexpr,
    BY_MAP: tl.constexpr,
):  # fmt: skip
    per_a: tl.constexpr = 2 if LEFT == "e2m1" else 1
    per_b: tl.constexpr = 2 if RIGHT == "e2m1" else 1
    m, n, i = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K // BLOCK * 128)
    total = tl.zeros((M, N), dtype=tl.float32)
    if BY_MAP:
        left = tl.make_tensor_descriptor(a_ptr, [M, DEPTH // per_a], [DEPTH // per_a, 1], [M, K // per_a])
        right = tl.make_tensor_descriptor(b_ptr, [N, DEPTH // per_b], [DEPTH // per_b, 1], [N, K // per_b])
    for k in tl.range(0, DEPTH // K, num_stages=3):
        if BY_MAP:
            a = left.load([0, k * (K // per_a)])
            b = right.load([0, k * (K // per_b)])
        else:
            a = tl.load(a_ptr + m[:, None] * (DEPTH // per_a) + (k * (K // per_a) + tl.arange(0, K // per_a))[None, :])
            b = tl.load(b_ptr + n[:, None] * (DEPTH // per_b) + (k * (K // per_b) + tl.arange(0, K // per_b))[None, :])
        at = k * (K // BLOCK * 128) + i
        sa = tl.load(a_scales + tl.arange(0, M // 128)[:, None] * (DEPTH // BLOCK * 128) + at[None, :])
        sb = tl.load(b_scales + tl.arange(0, N // 128)[:, None] * (DEPTH // BLOCK * 128) + at[None, :])
        sa = sa.reshape(M // 128, K // BLOCK // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(M, K // BLOCK)
        sb = sb.reshape(N // 128, K // BLOCK // 4, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(N, K // BLOCK)
        total = tl.dot_scaled(a, sa, LEFT, b.T, sb, RIGHT, total)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total)


@triton.jit  # type: ignore[untyped-decorator]
def group(  # type: ignore[no-untyped-def]
    memory, places, sides, count, CTAS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    tile = tl.program_id(0)
    first = 0
    for g in range(count):
        side = tl.load(sides + g)
        tiles = (side // M) * (side // N)
        if tile >= first and tile < first + tiles:
            at = tl.load(places + 3 * g).to(tl.pointer_type(tl.float16))
            left = tl.make_tensor_descriptor(at, [side, side], [side, 1], [M, K])
            at = tl.load(places + 3 * g + 1).to(tl.pointer_type(tl.float16))
            right = tl.make_tensor_descriptor(at, [side, side], [side, 1], [N, K])
            at = tl.load(places + 3 * g + 2).to(tl.pointer_type(tl.float16))
            out = tl.make_tensor_descriptor(at, [side, side], [side, 1], [M, N])
            while tile >= first and tile < first + tiles:
                x = (tile - first) // (side // N) * M
                y = (tile - first) % (side // N) * N
                total = tl.zeros((M, N), dtype=tl.float32)
                for k in range(0, side, K):
                    total += tl.dot(left.load([x, k]), right.load([y, k]).T)
                out.store([x, y], total.to(tl.float16))
                tile += CTAS
        first += tiles


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], architecture: int) -> Any:
    names = kernel.arg_names
    source = ASTSource(
        fn=kernel,
        signature={name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
    )
    return triton.compile(source, target=GPUTarget("cuda", architecture, 32), options={"num_warps": 4, "num_stages": 3})


def off(found: Array, wanted: Array) -> float:
    """The largest difference over the largest value."""
    return float(np.abs(found.astype(np.float64) - wanted).max() / np.abs(wanted).max())


def chained(architecture: int, schedule: Any, ctas: int, n: int) -> float:
    m, d, length = 128, 64, 512
    a = random.standard_normal((ctas, m, d)).astype(np.float16)
    b = random.standard_normal((ctas, length, d)).astype(np.float16)
    out = np.zeros((ctas, m, d), np.float32)
    one = compiled(
        chain, {"a_ptr": "*fp16", "b_ptr": "*fp16", "out_ptr": "*fp32"}, {"M": m, "N": n, "D": d, "LENGTH": length}, architecture
    )
    launch(one, ctas, a, b, out, schedule=schedule)
    worst = 0.0
    for cta in range(ctas):
        right = b[cta, cta * n :].astype(np.float64)
        middle = ((a[cta].astype(np.float64) @ right.T) * 0.125).astype(np.float16).astype(np.float64)
        worst = max(worst, off(out[cta], middle @ right))
    return worst


def operand(format_: str, rows: int, depth: int) -> tuple[Array, Array]:
    """Values, and the bytes that hold them."""
    if format_ == "e4m3":
        values = random.standard_normal((rows, depth)).astype(ml_dtypes.float8_e4m3fn)
        return values.astype(np.float64), values.view(np.uint8)
    codes = random.integers(0, 16, (rows, depth), dtype=np.uint8)
    return FOURS[codes], np.ascontiguousarray(codes[:, ::2] | codes[:, 1::2] << 4)


def scales(rows: int, depth: int, block: int) -> tuple[Array, Array]:
    """Scales of all elements, and the bytes that hold them, 128 rows by 4 blocks after another."""
    shape = (rows // 128, depth // block // 4, 32, 4, 4)
    if block == 16:
        held = (random.random(shape) + 0.1).astype(ml_dtypes.float8_e4m3fn)
        values, raw = held.astype(np.float64), held.view(np.uint8)
    else:
        raw = random.integers(122, 130, shape, dtype=np.uint8)
        values = 2.0 ** (raw.astype(np.float64) - 127)
    return np.repeat(values.transpose(0, 3, 2, 1, 4).reshape(rows, depth // block), block, 1), raw


def with_scales(architecture: int, schedule: Any, n: int, block: int, left: str, right: str, by_map: bool) -> float:
    m, k, depth = 128, 256 if left == right == "e2m1" else 128, 512
    (a, a_bytes), (b, b_bytes) = operand(left, m, depth), operand(right, n, depth)
    (sa, sa_bytes), (sb, sb_bytes) = scales(m, depth, block), scales(n, depth, block)
    out = np.zeros((m, n), np.float32)
    kinds = {"e4m3": "*fp8e4nv", "e2m1": "*u8"}
    held = "*fp8e4nv" if block == 16 else "*u8"
    types = {"a_ptr": kinds[left], "a_scales": held, "b_ptr": kinds[right], "b_scales": held, "out_ptr": "*fp32"}
    constants = {"M": m, "N": n, "K": k, "DEPTH": depth, "BLOCK": block, "LEFT": left, "RIGHT": right, "BY_MAP": by_map}
    launch(compiled(scaled, types, constants, architecture), 1, a_bytes, sa_bytes, b_bytes, sb_bytes, out, schedule=schedule)
    return off(out, (a * sa) @ (b * sb).T)


def grouped(architecture: int, schedule: Any, m: int, n: int) -> float:
    sides, ctas = np.array([256, 128, 128, 256], np.int32), 4
    memory = random.random(3 * int((sides.astype(np.int64) ** 2).sum())).astype(np.float16)
    matrices, at = [], 0
    for side in np.repeat(sides, 3).tolist():
        matrices.append(memory[at : at + side * side].reshape(side, side))
        at += side * side
    places = np.array([one.ctypes.data for one in matrices], np.int64)
    types = {"memory": "*fp16", "places": "*i64", "sides": "*i32", "count": "i32"}
    one = compiled(group, types, {"CTAS": ctas, "M": m, "N": n, "K": 64}, architecture)
    launch(one, ctas, memory, places, sides, len(sides), schedule=schedule)
    products = zip(matrices[::3], matrices[1::3], matrices[2::3], strict=True)
    return max(off(c, a.astype(np.float64) @ b.astype(np.float64).T) for a, b, c in products)


def cases(architecture: int, schedule: Any) -> Iterator[tuple[str, float, Callable[[], float]]]:
    """What it is, how far it may be off, and how far it is."""
    for ctas in (1, 2, 3):
        for n in (32, 128):
            yield f"chain of products, {ctas} CTAs, {n}", 2e-3, lambda ctas=ctas, n=n: chained(architecture, schedule, ctas, n)  # type: ignore[misc]
    for m, n in ((128, 128), (128, 64)):
        yield f"group of products, {m} x {n}", 2e-3, lambda m=m, n=n: grouped(architecture, schedule, m, n)  # type: ignore[misc]
    if architecture < 100:
        return
    for n, block, left, right, by_map in (
        (128, 32, "e4m3", "e4m3", False), (256, 32, "e4m3", "e4m3", False), (128, 32, "e2m1", "e2m1", False),
        (256, 32, "e2m1", "e2m1", True), (256, 16, "e2m1", "e2m1", True), (128, 32, "e4m3", "e2m1", False), (128, 32, "e4m3", "e2m1", True),
    ):  # fmt: skip
        name = f"block scales, {left} {right}, blocks of {block}, {n} columns{', by tensor maps' if by_map else ''}"
        given = (n, block, left, right, by_map)
        yield name, 1e-5, lambda given=given: with_scales(architecture, schedule, *given)  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=int, nargs="+", default=[90, 100])
    parser.add_argument("--schedule")
    options = parser.parse_args()
    wrong = 0
    for architecture in options.target:
        for name, bound, run in cases(architecture, options.schedule):
            try:
                found = run()
                said = f"{found:.1e}"
            except Exception as error:
                found, said = np.inf, f"{type(error).__name__}: {str(error)[:200]}"
            wrong += not found <= bound
            print(f"sm_{architecture} {name}: {'right' if found <= bound else 'WRONG'} {said}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
