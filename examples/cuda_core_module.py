"""Probes in a kernel that cuda.core loads and launches: it gets the instrumented text, ptxkit the handle of the loaded library."""

from pathlib import Path

import numpy

try:
    from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, ObjectCode, launch
except ImportError:  # before 1.0
    from cuda.core.experimental import Device, LaunchConfig, LegacyPinnedMemoryResource, launch
    from cuda.core.experimental._module import ObjectCode

import ptxkit
from ptxkit import rewriters

KERNEL = Path(__file__).resolve().parents[1] / "fixtures" / "profiling" / "scale.ptx"
N, GRID, BLOCK = 140, 3, 50

device = Device()
device.set_current()
stream = device.create_stream()
memory = LegacyPinnedMemoryResource()  # memory that both the kernel and numpy see
x_buffer, y_buffer = memory.allocate(4 * N), memory.allocate(4 * (N + 1))
x = numpy.from_dlpack(x_buffer).view(numpy.float32)
y = numpy.from_dlpack(y_buffer).view(numpy.float32)
x[:] = numpy.arange(N)
y[:] = 0

with rewriters.instrumented(ptxkit.parse(KERNEL.read_text()), ["block-counts", "cycles"]) as run:
    code = ObjectCode.from_ptx(run.text.encode() + b"\0")
    scale = code.get_kernel("scale")
    library = int(code.handle)
    buffer = run.attach(lambda name: run.device.symbol_of_library(library, name), grid=GRID, block=BLOCK)
    launch(stream, LaunchConfig(grid=GRID, block=BLOCK), scale, x_buffer, y_buffer, numpy.uint32(N), numpy.float32(8))
    stream.sync()
    tables = {table.name: table for table in buffer.tables()}

counts = tables["block-counts"]
for row in counts.rows():
    print(f"{row['line']:>4}  {row['instruction']!s:32} {row['count']:>5}")

i = numpy.arange(N)
wanted = numpy.where(i % BLOCK < 7, i * 8.0 / 2.0 ** (i % 4), 0.0).astype(numpy.float32)
assert (y[1:] == wanted).all()
assert list(counts.column("count")) == [GRID * BLOCK, N, N + int((i % 4).sum()), int((i % 4).sum()), N]
assert len(tables["block-cycles"]) == GRID
print("checked")
