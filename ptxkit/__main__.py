"""`python -m ptxkit`."""

from ptxkit.cli import run

run()
