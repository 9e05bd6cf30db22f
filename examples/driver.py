"""Block counts and a trace of memory of a kernel, through the CUDA driver alone: `pip install 'ptxkit[driver]'`, then run this file."""

from array import array
from pathlib import Path

import ptxkit
from ptxkit import rewriters

KERNEL = Path(__file__).resolve().parents[1] / "fixtures" / "profiling" / "scale.ptx"
N, GRID, BLOCK = 140, 3, 50

x = array("f", range(N))
y = array("f", [0.0] * (N + 1))

with rewriters.instrumented(ptxkit.parse(KERNEL.read_text()), ["block-counts", "memory-trace:space=global"]) as run:
    run.launch("scale", x, y, N, 8.0, grid=GRID, block=BLOCK)
    counts = run.table("block-counts")
    trace = run.table("memory-trace")

for row in counts.rows():
    print(f"{row['line']:>4}  {row['instruction']!s:32} {row['count']:>5}")
print(f"{len(trace)} accesses of warps to global memory")

# The kernel works as it did, and what the probes say is what the source says.
assert all(y[i + 1] == (i * 8.0 / 2 ** (i % 4) if i % BLOCK < 7 else 0.0) for i in range(N))
assert list(counts.column("count")) == [GRID * BLOCK, N, N + sum(i % 4 for i in range(N)), sum(i % 4 for i in range(N)), N]
assert sum(row["active"] for row in trace.rows() if row["kind"] == "read") == N
print("checked")
