"""PTX of small Numba kernels, without a GPU.

python numba_kernels.py FOLDER
"""

import math
import sys
from pathlib import Path

from numba import cuda, float32, float64, int32

TPB = 256
T = 16


def vadd(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


def stride_loop(a, b, k):
    for i in range(cuda.grid(1), a.shape[0], cuda.gridsize(1)):
        b[i] = a[i] * k + b[i]


def reduce_shared(x, out):
    s = cuda.shared.array(TPB, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    n = TPB // 2
    while n > 0:
        if t < n:
            s[t] += s[t + n]
        cuda.syncthreads()
        n //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def matmul(A, B, C):
    sA = cuda.shared.array((T, T), float32)
    sB = cuda.shared.array((T, T), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    tmp = float32(0)
    for i in range(cuda.gridDim.x):
        sA[ty, tx] = 0
        sB[ty, tx] = 0
        if y < A.shape[0] and tx + i * T < A.shape[1]:
            sA[ty, tx] = A[y, tx + i * T]
        if x < B.shape[1] and ty + i * T < B.shape[0]:
            sB[ty, tx] = B[ty + i * T, x]
        cuda.syncthreads()
        for j in range(T):
            tmp += sA[ty, j] * sB[j, tx]
        cuda.syncthreads()
    if y < C.shape[0] and x < C.shape[1]:
        C[y, x] = tmp


def transpose(a, b):
    tile = cuda.shared.array((32, 33), float32)
    x = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.y * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[1] and y + j < a.shape[0]:
            tile[cuda.threadIdx.y + j, cuda.threadIdx.x] = a[y + j, x]
    cuda.syncthreads()
    x = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    y = cuda.blockIdx.x * 32 + cuda.threadIdx.y
    for j in range(0, 32, 8):
        if x < a.shape[0] and y + j < a.shape[1]:
            b[y + j, x] = tile[cuda.threadIdx.x, cuda.threadIdx.y + j]


def warp_sum(x, out):
    i = cuda.grid(1)
    v = x[i] if i < x.size else 0.0
    o = 16
    while o > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, o)
        o //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, v)


def histogram(x, h, lo, hi):
    n = h.shape[0]
    w = (hi - lo) / n
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        b = int32((x[i] - lo) / w)
        if b >= 0 and b < n:
            cuda.atomic.add(h, b, 1)


def stencil(u, v, c):
    i, j = cuda.grid(2)
    n, m = u.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        v[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])


def scan(x, out):
    s = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    p = 0
    q = 1
    s[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    d = 1
    while d < TPB:
        p = 1 - p
        q = 1 - q
        if t >= d:
            s[p * TPB + t] = s[q * TPB + t] + s[q * TPB + t - d]
        else:
            s[p * TPB + t] = s[q * TPB + t]
        cuda.syncthreads()
        d *= 2
    if i < out.size:
        out[i] = s[p * TPB + t]


def mandel(img, a, b, c, d, n):
    x, y = cuda.grid(2)
    h, w = img.shape
    if x < w and y < h:
        cr = a + x * (b - a) / w
        ci = c + y * (d - c) / h
        zr = 0.0
        zi = 0.0
        k = 0
        while k < n and zr * zr + zi * zi < 4:
            zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
            k += 1
        img[y, x] = k


def nbody(p, a, eps):
    s = cuda.shared.array((TPB, 3), float32)
    i = cuda.grid(1)
    n = p.shape[0]
    t = cuda.threadIdx.x
    ax = float32(0)
    ay = float32(0)
    az = float32(0)
    for b in range(0, n, TPB):
        if b + t < n:
            for k in range(3):
                s[t, k] = p[b + t, k]
        cuda.syncthreads()
        if i < n:
            for j in range(min(TPB, n - b)):
                dx = s[j, 0] - p[i, 0]
                dy = s[j, 1] - p[i, 1]
                dz = s[j, 2] - p[i, 2]
                r = dx * dx + dy * dy + dz * dz + eps
                f = 1 / (math.sqrt(r) * r)
                ax += dx * f
                ay += dy * f
                az += dz * f
        cuda.syncthreads()
    if i < n:
        a[i, 0] = ax
        a[i, 1] = ay
        a[i, 2] = az


def bitonic(x):
    s = cuda.shared.array(TPB, int32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    k = 2
    while k <= TPB:
        j = k // 2
        while j > 0:
            o = t ^ j
            if o > t:
                if ((t & k) == 0) == (s[t] > s[o]):
                    s[t], s[o] = s[o], s[t]
            cuda.syncthreads()
            j //= 2
        k *= 2
    x[cuda.grid(1)] = s[t]


F = float32
K = {
    "vadd": (vadd, (F[:], F[:], F[:])),
    "stride_loop": (stride_loop, (F[:], F[:], F)),
    "reduce_shared": (reduce_shared, (F[:], F[:])),
    "matmul": (matmul, (F[:, :],) * 3),
    "transpose": (transpose, (F[:, ::1], F[:, ::1])),
    "warp_sum": (warp_sum, (F[::1], F[::1])),
    "histogram": (histogram, (F[:], int32[:], F, F)),
    "stencil": (stencil, (float64[:, ::1], float64[:, ::1], float64)),
    "scan": (scan, (F[::1], F[::1])),
    "mandel": (mandel, (int32[:, ::1], F, F, F, F, int32)),
    "nbody": (nbody, (F[:, ::1], F[:, ::1], F)),
    "bitonic": (bitonic, (int32[::1],)),
}
for name, (function, signature) in K.items():
    text, _ = cuda.compile(function, signature, cc=(8, 0), device=False, abi="numba")
    (Path(sys.argv[1]) / f"{name}.sm_80.ptx").write_text(text)
