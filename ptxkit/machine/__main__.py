"""`python -m ptxkit.machine program.py`: runs a program with the machine as its GPU."""

from ptxkit.machine.driver.running import main

main()
