"""`python -m keyrack` is the command `keyrack`."""

from keyrack.cli import main

main()
