"""Replace this process by a peer's server in another Python.

The process id stays, because it is measured.
"""

import os
import sys
from pathlib import Path

python, app, dsn, port = sys.argv[1:]
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])  # only this path, because the other Python has no Keyrack
os.execv(python, [python, "-m", f"peers.{app}", dsn, port])  # noqa: S606 - no shell is wanted
