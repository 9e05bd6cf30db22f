"""`python -m ptxkit`."""

from ptxkit.cli import main

main(prog_name="ptxkit")
