"""Decompression for fat binaries: LZ4 blocks and zstd frames."""

from __future__ import annotations

import importlib
import sys
from typing import Any

LARGEST = 1 << 30
"""Maximum bytes of a text; a header that claims more is rejected."""
EXTRA = "pip install 'ptxkit[binaries]'"


class Missing(Exception):
    """A required library is not installed; the message says which, and how to install it."""


def lz4(data: bytes, size: int) -> bytes:
    """The contents of an LZ4 block of `size` bytes uncompressed. Raises ValueError for damaged data, Missing."""
    if size > LARGEST or size > 255 * len(data) + 64:
        raise ValueError("its uncompressed size cannot be")
    library = _library("lz4.block", "LZ4", "lz4")
    try:
        return bytes(library.decompress(data, uncompressed_size=size))
    except (library.LZ4BlockError, ValueError, OverflowError) as error:
        raise ValueError(str(error)) from None


def zstd(data: bytes, size: int) -> bytes:
    """The contents of a zstd frame of `size` bytes uncompressed. Raises ValueError for damaged data, Missing."""
    if size > LARGEST:
        raise ValueError("its uncompressed size cannot be")
    if sys.version_info >= (3, 14):
        library = _library("compression.zstd", "zstd", "zstandard")
        try:
            return bytes(library.ZstdDecompressor().decompress(data, size))
        except library.ZstdError as error:
            raise ValueError(str(error)) from None
    library = _library("zstandard", "zstd", "zstandard")
    try:
        with library.ZstdDecompressor().stream_reader(data) as stream:
            return bytes(stream.read(size))
    except library.ZstdError as error:
        raise ValueError(str(error)) from None


def _library(module: str, format_: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise Missing(f"compressed with {format_}, which needs the package {package}: {EXTRA}") from None
