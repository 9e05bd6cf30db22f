"""Asynchronous copies: what is read or overwritten too early, and the pipeline that they form."""
