"""Repairs that are proved: what would cure a finding, tried on the machine before it is offered. The README says how."""

from ptxkit.rewriters.repairs.repairing import Left, Repair, Repaired, is_repairable, offer, offers, repair

__all__ = ["Left", "Repair", "Repaired", "is_repairable", "offer", "offers", "repair"]
