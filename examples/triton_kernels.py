"""Probes in kernels that Triton compiles: of this script, all but one line is what it would be without."""

import torch  # noqa: I001
import triton
import triton.language as tl

import ptxkit.rewriters; run = ptxkit.rewriters.instrument_triton("block-counts", "warp-masks")  # noqa: E702  # fmt: skip


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(out + row * columns + i, value / tl.sum(value, axis=0), mask=i < columns)


n, rows, columns, warps = 100_003, 77, 1000, 4
x, y = torch.rand(n, device="cuda"), torch.rand(n, device="cuda")
total = torch.empty_like(x)
table = torch.rand(rows, columns, device="cuda")
parts = torch.empty_like(table)

for _ in range(3):
    add[(triton.cdiv(n, 1024),)](x, y, total, n, BLOCK=1024, num_warps=warps)
softmax[(rows,)](table, parts, columns, BLOCK=1024, num_warps=warps)

assert torch.equal(total, x + y)
assert torch.allclose(parts, torch.softmax(table, dim=1), atol=1e-6)

# What was found can be asked for, as here; it is printed when the program ends in any case.
results = {result.kernel: result for result in run.results()}
for name, launches, grid in (("add", 3, triton.cdiv(n, 1024)), ("softmax", 1, rows)):
    result = results[name]
    counts = next(found for found in result.tables if found.name == "block-counts")
    assert (result.launches, result.grid, result.block) == (launches, (grid, 1, 1), (32 * warps, 1, 1))
    assert counts.column("count")[0] == launches * grid * 32 * warps  # every thread comes to the first block
print("checked")
