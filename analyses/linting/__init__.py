"""Findings of a module: what rules say of its text, and what executions show. The README says how the two are put together."""
