"""Become a peer's server: another Python runs it, in this process, so that it keeps the id under measurement."""

import os
import sys
from pathlib import Path

python, app, dsn, port = sys.argv[1:]
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # by itself: that Python has nothing of Keyrack
os.execv(python, [python, "-m", f"peers.{app}", dsn, port])  # noqa: S606 - no shell is wanted
