"""Asynchronous copies: premature reads and overwrites, and the pipeline that the copies form."""
