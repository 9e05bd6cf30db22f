"""Whether products of matrices are computed as tensor cores do, to the last bit, or only roughly, which is faster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ROUGH: ContextVar[bool] = ContextVar("rough", default=False)


@contextmanager
def rough_products() -> Iterator[None]:
    """Within this context, the last bits of products may differ from those of a tensor core, for callers that do not depend on them.

    Equal factors still have equal products.
    """
    token = _ROUGH.set(True)
    try:
        yield
    finally:
        _ROUGH.reset(token)


def is_rough() -> bool:
    """Whether `rough_products` is active."""
    return _ROUGH.get()
