"""Textures and surfaces: objects behind handles, and sampling (ISA 5.3, 9.7.11, 9.7.12)."""

from ptxkit.machine.textures.objects import Sampler, Surface, Texture

__all__ = ["Sampler", "Surface", "Texture"]
