"""Findings of a module: what rules infer from its text and what executions show. The README describes how both are merged."""
