"""Become a peer's server: another Python runs it, in this process, so that it keeps the id under measurement."""

import os
import sys

python, app, dsn, port = sys.argv[1:]
os.execv(python, [python, "-m", f"benchmarks.peers.{app}", dsn, port])  # noqa: S606 - no shell is wanted
