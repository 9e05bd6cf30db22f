"""Proved repairs: candidate fixes of a finding, tried on the machine before they are offered. The README explains how."""

from ptxkit.rewriters.repairs.repairing import Left, Repair, Repaired, is_repairable, offer, offers, repair

__all__ = ["Left", "Repair", "Repaired", "is_repairable", "offer", "offers", "repair"]
