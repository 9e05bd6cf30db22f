"""Contexts: a stack of current contexts for each thread, and the primary context, which is shared."""

from __future__ import annotations

from ptxkit.machine.driver.enumerations import numbers
from ptxkit.machine.driver.interface import SPOILT, Failure, call
from ptxkit.machine.driver.state import STATE, Context

_limits: dict[int, int] = {}
_DEFAULTS = {"STACK_SIZE": 1024, "PRINTF_FIFO_SIZE": 1 << 20, "MALLOC_HEAP_SIZE": 8 << 20, "DEV_RUNTIME_SYNC_DEPTH": 2}


def _primary() -> int:
    for handle in STATE.handles():
        if STATE.find(handle) is STATE.primary:
            return handle
    return STATE.handle(STATE.primary)


@call("*q i")
def cuDevicePrimaryCtxRetain(device: int) -> int:
    STATE.ready()
    if device:
        raise Failure("INVALID_DEVICE")
    STATE.retained += 1
    return _primary()


@call("i", "cuDevicePrimaryCtxRelease_v2")
def cuDevicePrimaryCtxRelease(device: int) -> None:
    if not STATE.retained:
        raise Failure("INVALID_CONTEXT")
    STATE.retained -= 1


@call("i", "cuDevicePrimaryCtxReset_v2")
def cuDevicePrimaryCtxReset(device: int) -> None:
    SPOILT.clear()


@call("i *u *i")
def cuDevicePrimaryCtxGetState(device: int) -> tuple[int, int]:
    return STATE.primary.flags, int(STATE.retained > 0)


@call("i u", "cuDevicePrimaryCtxSetFlags_v2")
def cuDevicePrimaryCtxSetFlags(device: int, flags: int) -> None:
    STATE.primary.flags = flags


def _create(flags: int, device: int) -> int:
    STATE.ready()
    if device:
        raise Failure("INVALID_DEVICE")
    handle = STATE.handle(Context(flags=flags))
    STATE.contexts.append(handle)
    return handle


@call("*q u i", "cuCtxCreate_v2")
def cuCtxCreate(flags: int, device: int) -> int:
    return _create(flags, device)


@call("*q q i u i", since=11040, base="cuCtxCreate")
def cuCtxCreate_v3(affinities: int, count: int, flags: int, device: int) -> int:
    return _create(flags, device)


@call("*q q u i", since=12050, base="cuCtxCreate")
def cuCtxCreate_v4(parameters: int, flags: int, device: int) -> int:
    return _create(flags, device)


@call("q", "cuCtxDestroy_v2")
def cuCtxDestroy(context: int) -> None:
    STATE.drop(context, Context)
    if STATE.contexts and STATE.contexts[-1] == context:
        STATE.contexts.pop()


@call("q", "cuCtxPushCurrent_v2")
def cuCtxPushCurrent(context: int) -> None:
    STATE.of(context, Context)
    STATE.contexts.append(context)


@call("*q", "cuCtxPopCurrent_v2")
def cuCtxPopCurrent() -> int:
    if not STATE.contexts:
        raise Failure("INVALID_CONTEXT")
    return STATE.contexts.pop()


@call("q")
def cuCtxSetCurrent(context: int) -> None:
    STATE.ready()
    if context:
        STATE.of(context, Context)
    if STATE.contexts:
        STATE.contexts.pop()
    if context:
        STATE.contexts.append(context)


@call("*q")
def cuCtxGetCurrent() -> int:
    STATE.ready()
    return STATE.contexts[-1] if STATE.contexts else 0


@call("*i")
def cuCtxGetDevice() -> int:
    return STATE.current().device


@call("*i q", since=13000, base="cuCtxGetDevice")
def cuCtxGetDevice_v2(context: int) -> int:
    return (STATE.of(context, Context) if context else STATE.current()).device


@call("*u")
def cuCtxGetFlags() -> int:
    return STATE.current().flags


@call("u")
def cuCtxSetFlags(flags: int) -> None:
    STATE.current().flags = flags


@call("q *q")
def cuCtxGetId(context: int) -> int:
    one = STATE.of(context, Context) if context else STATE.current()
    one.number = one.number or STATE.number()
    return one.number


@call("", settles=True)
def cuCtxSynchronize() -> None:
    STATE.current()


@call("q", since=13000, base="cuCtxSynchronize", settles=True)
def cuCtxSynchronize_v2(context: int) -> None:
    if context:
        STATE.of(context, Context)


@call("i q")
def cuCtxSetLimit(limit: int, value: int) -> None:
    STATE.current()
    _limits[limit] = value


@call("*q i")
def cuCtxGetLimit(limit: int) -> int:
    STATE.current()
    ids = numbers("CUlimit")
    return _limits.get(limit, next((value for name, value in _DEFAULTS.items() if ids.get(name) == limit), 0))


@call("*i")
def cuCtxGetCacheConfig() -> int:
    return 0


@call("i")
def cuCtxSetCacheConfig(config: int) -> None:
    STATE.current()


@call("*i")
def cuCtxGetSharedMemConfig() -> int:
    return 1


@call("i")
def cuCtxSetSharedMemConfig(config: int) -> None:
    STATE.current()


@call("q *u")
def cuCtxGetApiVersion(context: int) -> int:
    return 3020


@call("*i *i")
def cuCtxGetStreamPriorityRange() -> tuple[int, int]:
    return 0, -5


@call("")
def cuCtxResetPersistingL2Cache() -> None:
    STATE.current()


@call("q u")
def cuCtxEnablePeerAccess(context: int, flags: int) -> None:
    raise Failure("PEER_ACCESS_UNSUPPORTED")


@call("q")
def cuCtxDisablePeerAccess(context: int) -> None:
    raise Failure("PEER_ACCESS_NOT_ENABLED")


@call("")
def cuProfilerStart() -> None:
    return None


@call("")
def cuProfilerStop() -> None:
    return None
