"""Foundations of every analysis and rule: routines and facts, forms of instructions, rules, findings and their reports."""
