"""Where a node stands."""

from ptxkit.syntax import Index

__all__ = ["Index"]
