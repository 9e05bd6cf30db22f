"""Asynchronous operations: copies, bulk copies, reductions; the mbarriers that track them; tensor maps (ISA 9.7.10.24, 9.7.14.15)."""

from ptxkit.machine.asynchronous.agents import Agents, Flight
from ptxkit.machine.asynchronous.tensor_maps import TensorMap
from ptxkit.machine.asynchronous.transfers import complete_transaction

__all__ = ["Agents", "Flight", "TensorMap", "complete_transaction"]
