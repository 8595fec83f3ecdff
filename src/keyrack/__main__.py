"""`python -m keyrack` is the command `keyrack`."""

from keyrack.cli.main import main

main()
