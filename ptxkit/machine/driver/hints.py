"""Hints about managed memory: they affect only later queries. They are kept for whole allocations."""

from __future__ import annotations

import ctypes

from ptxkit.machine.driver.interface import Failure, call
from ptxkit.machine.driver.memory import Held, holding
from ptxkit.machine.driver.streams import stream_of

Location = tuple[int, int]
"""The type of a location and its number."""

_INVALID, _DEVICE, _HOST = range(3)
_CPU, _NO_DEVICE = -1, -2
"""Devices, as attributes of a range name them."""

_READ_MOSTLY, _PREFERRED, _ACCESSED_BY = 1, 3, 5
"""Advice numbers; the one after each undoes it."""


def _managed(address: int) -> Held:
    found = holding(address)
    if found is None or found[1].kind != "managed":
        raise Failure("INVALID_VALUE", f"{address:#x} is not managed memory")
    return found[1]


def _of_number(device: int) -> Location:
    return (_HOST, 0) if device == _CPU else (_DEVICE, device)


def _of_bits(location: int) -> Location:
    return location & 0xFFFFFFFF, ctypes.c_int(location >> 32).value


def _known(location: Location) -> Location:
    kind, number = location
    if kind == _DEVICE and number:
        raise Failure("INVALID_DEVICE")
    if not _DEVICE <= kind <= 4:
        raise Failure("INVALID_VALUE")
    return location


def _prefetch(address: int, location: Location, stream: int) -> None:
    stream_of(stream)
    _managed(address).hints.prefetched = _known(location)


@call("q q i q")
def cuMemPrefetchAsync(address: int, size: int, device: int, stream: int) -> None:
    _prefetch(address, _of_number(device), stream)


@call("q q q u q", since=12020, base="cuMemPrefetchAsync")
def cuMemPrefetchAsync_v2(address: int, size: int, location: int, flags: int, stream: int) -> None:
    _prefetch(address, _of_bits(location), stream)


def _advise(address: int, advice: int, location: Location) -> None:
    hints = _managed(address).hints
    if not _READ_MOSTLY <= advice <= _ACCESSED_BY + 1:
        raise Failure("INVALID_VALUE")
    kind, is_set = (advice - 1) // 2 * 2 + 1, advice % 2 == 1
    if kind == _READ_MOSTLY:
        hints.read_mostly = is_set
    elif kind == _PREFERRED:
        hints.preferred = _known(location) if is_set else (_INVALID, 0)
    elif is_set:
        hints.accessed_by.add(_known(location))
    else:
        hints.accessed_by.discard(location)


@call("q q i i")
def cuMemAdvise(address: int, size: int, advice: int, device: int) -> None:
    _advise(address, advice, _of_number(device))


@call("q q i q", since=12020, base="cuMemAdvise")
def cuMemAdvise_v2(address: int, size: int, advice: int, location: int) -> None:
    _advise(address, advice, _of_bits(location))


def _numbers(place: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(place)) if count else []


def _prefetch_all(addresses: int, sizes: int, count: int, places: int, firsts: int, kinds: int, flags: int, stream: int) -> None:
    first = _numbers(firsts, kinds)
    if not count or not kinds or flags or first[0]:
        raise Failure("INVALID_VALUE")
    for i, address in enumerate(_numbers(addresses, count)):
        which = max(k for k in range(kinds) if first[k] <= i)
        _prefetch(address, _of_bits(ctypes.c_uint64.from_address(places + 8 * which).value), stream)


@call("q q q q q q q q", settles=True)
def cuMemPrefetchBatchAsync(addresses: int, sizes: int, count: int, places: int, firsts: int, kinds: int, flags: int, stream: int) -> None:
    _prefetch_all(addresses, sizes, count, places, firsts, kinds, flags, stream)


@call("q q q q q", settles=True)
def cuMemDiscardBatchAsync(addresses: int, sizes: int, count: int, flags: int, stream: int) -> None:
    stream_of(stream)
    if not count or flags:
        raise Failure("INVALID_VALUE")
    for address in _numbers(addresses, count):
        _managed(address)


@call("q q q q q q q q", settles=True)
def cuMemDiscardAndPrefetchBatchAsync(
    addresses: int, sizes: int, count: int, places: int, firsts: int, kinds: int, flags: int, stream: int
) -> None:
    _prefetch_all(addresses, sizes, count, places, firsts, kinds, flags, stream)


def _device(location: Location) -> int:
    kind, number = location
    return {_INVALID: _NO_DEVICE, _DEVICE: number}.get(kind, _CPU)


def _asked(data: int, size: int, kind: int, address: int) -> None:
    hints = _managed(address).hints
    if size % 4 or not size:
        raise Failure("INVALID_VALUE")
    if kind == 3:
        devices = sorted(_device(one) for one in hints.accessed_by)[: size // 4]
        values = devices + [_NO_DEVICE] * (size // 4 - len(devices))
    else:
        every = {
            1: int(hints.read_mostly), 2: _device(hints.preferred), 4: _device(hints.prefetched), 5: hints.preferred[0],
            6: hints.preferred[1], 7: hints.prefetched[0], 8: hints.prefetched[1],
        }  # fmt: skip
        if kind not in every or size != 4:
            raise Failure("INVALID_VALUE")
        values = [every[kind]]
    ctypes.memmove(data, (ctypes.c_int * len(values))(*values), size)


@call("q q i q q")
def cuMemRangeGetAttribute(data: int, size: int, kind: int, address: int, count: int) -> None:
    _asked(data, size, kind, address)


@call("q q q q q q")
def cuMemRangeGetAttributes(places: int, sizes: int, kinds: int, number: int, address: int, count: int) -> None:
    for i, (place, size) in enumerate(zip(_numbers(places, number), _numbers(sizes, number), strict=True)):
        _asked(place, size, ctypes.c_int.from_address(kinds + 4 * i).value, address)
