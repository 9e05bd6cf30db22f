"""wgmma."""

WORDS = ("wgmma",)
