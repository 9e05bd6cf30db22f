"""PTX of small kernels in locomp's language, by its generator of CUDA C++ and nvcc.

python locomp_kernels.py FOLDER TARGET
"""

import subprocess
import sys
from pathlib import Path

import locomp
from locomp.backends.cuda_codegen import compile_to_cuda

WARPS = 4


@locomp.kernel
def row_softmax(X: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    row = locomp.program_id(0)
    tid = locomp.local_id(0)
    smem = locomp.shared_memory(32)
    high = -1e30
    for i in range(tid, N, 128):
        high = locomp.max(high, locomp.load(X + row * N + i))
    high = locomp.simd_max(high)
    if locomp.simd_lane_id() == 0:
        locomp.shared_store(smem, locomp.simd_group_id(), high)
    locomp.barrier()
    top = -1e30
    for g in range(4):
        top = locomp.max(top, locomp.shared_load(smem, g))
    locomp.barrier()
    total = 0.0
    for i in range(tid, N, 128):
        total = total + locomp.exp(locomp.load(X + row * N + i) - top)
    total = locomp.simd_sum(total)
    if locomp.simd_lane_id() == 0:
        locomp.shared_store(smem, locomp.simd_group_id(), total)
    locomp.barrier()
    whole = 0.0
    for g in range(4):
        whole = whole + locomp.shared_load(smem, g)
    for i in range(tid, N, 128):
        locomp.store(Y + row * N + i, locomp.exp(locomp.load(X + row * N + i) - top) / whole)


@locomp.kernel
def row_norm(X: locomp.Tensor, W: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    row = locomp.program_id(0)
    tid = locomp.local_id(0)
    smem = locomp.shared_memory(32)
    part = 0.0
    for i in range(tid, N, 128):
        one = locomp.load(X + row * N + i)
        part = part + one * one
    part = locomp.simd_sum(part)
    if locomp.simd_lane_id() == 0:
        locomp.shared_store(smem, locomp.simd_group_id(), part)
    locomp.barrier()
    if tid == 0:
        total = 0.0
        for g in range(4):
            total = total + locomp.shared_load(smem, g)
        locomp.shared_store(smem, 0, locomp.rsqrt(total / N + 1e-6))
    locomp.barrier()
    factor = locomp.shared_load(smem, 0)
    for i in range(tid, N, 128):
        locomp.store(Y + row * N + i, locomp.load(X + row * N + i) * factor * locomp.load(W + i))


@locomp.kernel
def tree_sum(X: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    row = locomp.program_id(0)
    tid = locomp.local_id(0)
    smem = locomp.shared_memory(128)
    part = 0.0
    for i in range(tid, N, 128):
        part = part + locomp.load(X + row * N + i)
    locomp.shared_store(smem, tid, part)
    locomp.barrier()
    for step in range(7):
        half = 64 >> step
        if tid < half:
            locomp.shared_store(smem, tid, locomp.shared_load(smem, tid) + locomp.shared_load(smem, tid + half))
        locomp.barrier()
    if tid == 0:
        locomp.store(Y + row, locomp.shared_load(smem, 0))


@locomp.kernel
def tiled_product(A: locomp.Tensor, B: locomp.Tensor, C: locomp.Tensor, M: locomp.constexpr, N: locomp.constexpr, K: locomp.constexpr):
    ty = locomp.local_id(1)
    tx = locomp.local_id(0)
    row = locomp.program_id(1) * 16 + ty
    column = locomp.program_id(0) * 16 + tx
    left = locomp.shared_memory(256)
    right = locomp.shared_memory(256)
    total = 0.0
    for t in range(K // 16):
        locomp.shared_store(left, ty * 16 + tx, locomp.load(A + row * K + t * 16 + tx))
        locomp.shared_store(right, ty * 16 + tx, locomp.load(B + (t * 16 + ty) * N + column))
        locomp.barrier()
        for k in range(16):
            total = total + locomp.shared_load(left, ty * 16 + k) * locomp.shared_load(right, k * 16 + tx)
        locomp.barrier()
    locomp.store(C + row * N + column, total)


@locomp.kernel
def rotate_pairs(Q: locomp.Tensor, Cos: locomp.Tensor, Sin: locomp.Tensor, N: locomp.constexpr, D: locomp.constexpr):
    head = locomp.program_id(0)
    token = locomp.program_id(1)
    for d in range(D // 2):
        first = locomp.load(Q + head * N * D + token * D + d)
        second = locomp.load(Q + head * N * D + token * D + d + D // 2)
        cosine = locomp.load(Cos + token * (D // 2) + d)
        sine = locomp.load(Sin + token * (D // 2) + d)
        locomp.store(Q + head * N * D + token * D + d, first * cosine - second * sine)
        locomp.store(Q + head * N * D + token * D + d + D // 2, first * sine + second * cosine)


@locomp.kernel
def warp_scan(X: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    tid = locomp.local_id(0)
    place = locomp.program_id(0) * 128 + tid
    one = locomp.load(X + place)
    down = locomp.simd_shuffle_down(one, 1)
    first = locomp.simd_broadcast(one, 0)
    locomp.store(Y + place, one + down * first)


@locomp.kernel
def counted(X: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    i = locomp.program_id(0) * 128 + locomp.local_id(0)
    if i < N:
        locomp.atomic_add(Y + i % 16, locomp.load(X + i))


@locomp.kernel
def gelu(X: locomp.Tensor, Y: locomp.Tensor, N: locomp.constexpr):
    i = locomp.program_id(0)
    x = locomp.load(X + i)
    inner = locomp.clamp(0.7978845608 * (x + 0.044715 * x * x * x), -10.0, 10.0)
    locomp.store(Y + i, 0.5 * x * (1.0 + locomp.tanh(inner)))


SIZES = {"M": 64, "N": 512, "K": 64, "D": 64}


def main():
    out, target = Path(sys.argv[1]), sys.argv[2]
    for name, kernel in [(name, one) for name, one in globals().items() if type(one).__name__ == "KernelLauncher"]:
        try:
            sizes = {one.name: SIZES[one.name.partition("_")[0]] for one in kernel.ir.params if not one.is_pointer}
            text, _ = compile_to_cuda(kernel.ir, constexpr_values=sizes)
        except Exception as error:
            print(name, repr(error)[:200], file=sys.stderr)
            continue
        source = out / f"{name}.cu"
        source.write_text(text)
        subprocess.run(["nvcc", "-ptx", f"-arch=sm_{target}", str(source), "-o", str(out / f"{name}.sm_{target}.ptx")], check=False)


if __name__ == "__main__":
    main()
