"""Probes in a kernel that CuPy loads and launches, as a RawModule: CuPy gets the instrumented text, ptxkit the address of a variable."""

import tempfile
from pathlib import Path

import cupy
import numpy

import ptxkit
from ptxkit import rewriters

KERNEL = Path(__file__).resolve().parents[1] / "fixtures" / "profiling" / "scale.ptx"
N, GRID, BLOCK = 140, 3, 50

x = cupy.arange(N, dtype=cupy.float32)
y = cupy.zeros(N + 1, dtype=cupy.float32)

with rewriters.instrumented(ptxkit.parse(KERNEL.read_text()), ["block-counts", "warp-masks"]) as run:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scale.ptx"  # a RawModule takes PTX from a file
        path.write_text(run.text)
        module = cupy.RawModule(path=str(path))
        scale = module.get_function("scale")
    buffer = run.attach(lambda name: module.get_global(name).ptr, grid=GRID, block=BLOCK)
    scale((GRID,), (BLOCK,), (x, y, numpy.uint32(N), numpy.float32(8)))
    cupy.cuda.Device().synchronize()
    tables = {table.name: table for table in buffer.tables()}

counts = tables["block-counts"]
for row in counts.rows():
    print(f"{row['line']:>4}  {row['instruction']!s:32} {row['count']:>5}")

i = numpy.arange(N)
wanted = numpy.where(i % BLOCK < 7, i * 8.0 / 2.0 ** (i % 4), 0.0).astype(numpy.float32)
assert (cupy.asnumpy(y)[1:] == wanted).all()
assert list(counts.column("count")) == [GRID * BLOCK, N, N + int((i % 4).sum()), int((i % 4).sum()), N]
print("checked")
