"""Goes through all that `Device` does, against the library that LD_LIBRARY_PATH has; run by test_device.py."""

from __future__ import annotations

from ptxkit.rewriters.profiling.device import Device, DeviceError
from ptxkit.rewriters.profiling.launch import Array, Launch, Raw, Scalar
from ptxkit.rewriters.profiling.memory import Memory

device = Device()
assert (device.name, device.driver, device.architecture) == ("fake", "12.9", "sm_90")
module = device.load(b"good")
assert device.registers(device.function(module, "k0")) == 104

address = device.allocate(5)
device.write(address, b"abcde")
assert device.read(address, 5) == b"abcde"
other = device.allocate(5)
device.copy(other, address, 5)
assert device.read(other, 5) == b"abcde"
device.free(other)

device.launch(device.function(module, "k2"), (1, 2, 3), (4, 5, 6), [address.to_bytes(8, "little"), b"\7" + bytes(7)])
assert device.read(address, 1) == b"b"
device.launch(device.function(module, "k0"), (1, 1, 1), (1, 1, 1), [], shared=60000, cluster=(2, 1, 1), cooperative=True)
device.synchronize()
assert device.seconds(device.event(), device.event()) == 0.0025

words = device.symbol(module, "words")
device.write(words, b"12345678")
assert device.read(device.symbol_of_library(2, "words"), 8) == b"12345678" == device.read(device.symbol(2, "words"), 8)
here, there = device.allocate_host(16)
assert here == there
device.free_host(here)

tensor = Array("f16", (6, 8), kind="tensormap", box=(2, 4), swizzle="128B")
arguments = (
    Array("f32", (3,), "iota"),
    Raw(b"x" * 16),
    Scalar("i8", -1),
    tensor,
    Array("i32", (2, 3), "ones", kind="texture"),
    Array("f32", (3,), kind="texture"),
    Array("f32", (2, 2), kind="surface"),
)
memory = Memory(device, Launch("k", (1, 1, 1), (1, 1, 1), arguments))
memory.restore()
assert [len(one) for one in memory.parameters] == [8, 16, 1, 128, 8, 8, 8]
assert memory.contents()[0] == b"\0\0\0\0\0\0\x80?\0\0\0@"
assert len(memory.allocations) == 2
memory.free()

for call in (lambda: device.load(b"bad"), lambda: device.symbol(module, "nothing")):
    try:
        call()
    except DeviceError as error:
        print(error)
device.unload(module)
