"""Test helpers: kernels on the machine or on a GPU, and `assert_equal_on`. The pytest plugin is `ptxkit.testing.plugin`."""

from __future__ import annotations

from ptxkit.testing.backends import Backend, FindingsError, assert_equal_on, backend

__all__ = ["Backend", "FindingsError", "assert_equal_on", "backend"]
